// What the Worker's log says of a whole run, added up.

/** Adds up the log's structured lines as they come. */
export class Tally {
  kept = 0;
  repeats = 0;
  parked = {};
  retried = 0;
  retriedBy = {};
  delivered = 0;
  /** Calls of subscribers, however they ended. */
  calls = 0;
  batches = 0;
  receiving = { d1Batches: 0, rowsWritten: 0 };
  delivering = { d1Batches: 0, rowsWritten: 0 };
  /** Lines of the log that tell of trouble, the first few. */
  trouble = [];

  /** Takes one line of the log. */
  take({ level, message }) {
    let entry;
    try {
      entry = JSON.parse(message);
    } catch {
      if (level === "error" || level === "warn") this.#note(message);
      return;
    }
    if (entry.event === "queue.received") this.#received(entry);
    else if (entry.event === "queue.retried") {
      this.retried += entry.count;
      this.retriedBy[entry.code] = (this.retriedBy[entry.code] ?? 0) + entry.count;
    } else if (entry.event === "delivery.ran") {
      this.delivered += entry.done;
      this.calls += entry.done + entry.waiting + entry.failed + entry.unsettled;
      this.delivering.d1Batches += entry.store_batches;
      this.delivering.rowsWritten += entry.rows_written;
    }
    if (entry.level === "error") this.#note(message);
  }

  /** Messages that the store has taken, one way or another. */
  get settled() {
    return this.kept + this.repeats + Object.values(this.parked).reduce((sum, count) => sum + count, 0);
  }

  #received(entry) {
    this.batches += 1;
    this.kept += entry.kept;
    this.repeats += entry.repeats;
    for (const [reason, count] of Object.entries(entry.parked)) {
      this.parked[reason] = (this.parked[reason] ?? 0) + count;
    }
    this.receiving.d1Batches += entry.store_batches;
    this.receiving.rowsWritten += entry.rows_written;
  }

  #note(line) {
    if (this.trouble.length < 20) this.trouble.push(line);
  }
}
