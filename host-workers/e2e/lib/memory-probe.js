// Keeps the Worker's Wasm memory in reach, so that a test can see how large it has grown. Imported before the Worker.

const Instance = WebAssembly.Instance;

WebAssembly.Instance = class extends Instance {
  constructor(module, imports) {
    super(module, imports);
    globalThis.jadpoMemory = this.exports.memory;
  }
};
