const file = 'src/rows/pipeline/delivered-keys.ts';
const test = 'test/integration/pipeline/changes.test.ts';

/** Faults in comparisons of a changing table's keys. */
export const changeMutants = [
  {
    name: 'changes: a delete that was delivered is announced again by a comparison',
    file,
    find: 'return joined.slice(at + 1) === changeOps.delete ? replay.take(key) : replay.put(key);',
    replace: 'return replay.put(key);',
    test,
  },
  {
    name: 'changes: an erasure beside a comparison is announced',
    file,
    find: 'if (seen.digest() === this.#readFrom) return;',
    replace: 'if (seen.last !== null) return;',
    test,
  },
  {
    name: 'changes: a comparison forgets half of the keys',
    file,
    find: 'for (let group = 0; group < groupCount; group += 1) {',
    replace: 'for (let group = groupCount / 2; group < groupCount; group += 1) {',
    test,
  },
];
