// A Worker that stands in for a subscriber.

/** Its module: it has read the event, and answers 200. */
export const STAND_IN = `export default {
  async fetch(request) {
    await request.arrayBuffer();
    return new Response("ok");
  },
};`;

/** The name of the Worker that stands in for whoever is called over HTTP. */
export const STAND_IN_NAME = "jadpo-stand-in";
