import { describe, expect, it } from 'vitest';
import { MemoryGate } from '../../../src/worker/memory-gate.ts';

/** Enters runs of these sizes; says which are inside. */
function enterAll(gate: MemoryGate, sizes: readonly number[]) {
  const leave: ((() => void) | null | undefined)[] = sizes.map(() => undefined);
  for (const [index, bytes] of sizes.entries()) {
    void gate.enter(bytes).then((admitted) => {
      leave[index] = admitted;
    });
  }
  const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    async inside() {
      await settled();
      return leave.flatMap((admitted, index) => (admitted ? [index] : []));
    },
    async turnedAway() {
      await settled();
      return leave.flatMap((admitted, index) => (admitted === null ? [index] : []));
    },
    leave: (index: number) => leave[index]?.(),
  };
}

describe('the gate of a worker', () => {
  it('lets in what fits, and the next as soon as one leaves', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [40, 40, 40, 20]);
    expect(await runs.inside()).toEqual([0, 1]);
    expect(gate.usedBytes).toBe(80);
    runs.leave(0);
    expect(await runs.inside()).toEqual([0, 1, 2, 3]);
    expect(gate.usedBytes).toBe(100);
  });

  it('does not let small runs pass a large one', async () => {
    const runs = enterAll(new MemoryGate(100), [60, 90, 10, 10]);
    expect(await runs.inside()).toEqual([0]);
    runs.leave(0);
    expect(await runs.inside()).toEqual([0, 1, 2]);
  });

  it('lets a run in alone if it is larger than the whole memory', async () => {
    const runs = enterAll(new MemoryGate(100), [10, 500, 10]);
    expect(await runs.inside()).toEqual([0]);
    runs.leave(0);
    expect(await runs.inside()).toEqual([0, 1]);
    runs.leave(1);
    expect(await runs.inside()).toEqual([0, 1, 2]);
  });

  it('gives memory back once if a run leaves twice', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [60, 30]);
    expect(await runs.inside()).toEqual([0, 1]);
    runs.leave(0);
    runs.leave(0);
    expect(gate.usedBytes).toBe(30);
  });

  it('refuses waiting and new runs once it is closed', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [100, 50]);
    expect(await runs.inside()).toEqual([0]);
    gate.close();
    expect(await runs.turnedAway()).toEqual([1]);
    expect(await gate.enter(1)).toBeNull();
  });
});

describe('a run inside that needs more memory', () => {
  const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
  const never = new AbortController().signal;

  /** Grows by these sizes; says which have it. */
  function growAll(gate: MemoryGate, sizes: readonly number[], signal = never) {
    const giveBack: ((() => void) | undefined)[] = sizes.map(() => undefined);
    const failed: unknown[] = [];
    for (const [index, bytes] of sizes.entries()) {
      gate.grow(bytes, signal).then(
        (granted) => {
          giveBack[index] = granted;
        },
        (error: unknown) => failed.push(error),
      );
    }
    return {
      failed,
      async granted() {
        await settled();
        return giveBack.flatMap((granted, index) => (granted ? [index] : []));
      },
      giveBack: (index: number) => giveBack[index]?.(),
    };
  }

  it('gets it at once if it fits, and gives it back', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [20, 20]);
    expect(await runs.inside()).toEqual([0, 1]);
    const rows = growAll(gate, [60]);
    expect(await rows.granted()).toEqual([0]);
    expect(gate.usedBytes).toBe(100);
    rows.giveBack(0);
    expect(gate.usedBytes).toBe(40);
  });

  it('waits until another run leaves, and comes before the runs that wait outside', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [40, 40, 40]);
    expect(await runs.inside()).toEqual([0, 1]);
    const rows = growAll(gate, [50]);
    expect(await rows.granted()).toEqual([]);
    runs.leave(1);
    expect(await rows.granted()).toEqual([0]);
    expect(await runs.inside()).toEqual([0, 1]);
    rows.giveBack(0);
    expect(await runs.inside()).toEqual([0, 1, 2]);
  });

  it('gets it alone, one after another, if all runs inside wait for more', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [30, 30, 30]);
    expect(await runs.inside()).toEqual([0, 1, 2]);
    const rows = growAll(gate, [80, 80, 80]);
    expect(await rows.granted()).toEqual([0]);
    rows.giveBack(0);
    // The first run works on, and leaves: two are inside, and both wait.
    expect(await rows.granted()).toEqual([0]);
    runs.leave(0);
    expect(await rows.granted()).toEqual([0, 1]);
  });

  it('waits no longer once it is aborted', async () => {
    const gate = new MemoryGate(100);
    const runs = enterAll(gate, [50, 50]);
    expect(await runs.inside()).toEqual([0, 1]);
    const stopping = new AbortController();
    const rows = growAll(gate, [10], stopping.signal);
    stopping.abort('lost');
    expect(await rows.granted()).toEqual([]);
    expect(rows.failed).toEqual(['lost']);
    expect(gate.usedBytes).toBe(100);
  });
});
