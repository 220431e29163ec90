/** Counts the turns of this process's event loop: while a piece of work blocks it, none is added. */
export function countLoopTurns(): { turns(): number; stop(): void } {
  let turns = 0;
  let next = setImmediate(count);
  function count(): void {
    turns += 1;
    next = setImmediate(count);
  }
  return { turns: () => turns, stop: () => clearImmediate(next) };
}
