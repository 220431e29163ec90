import { describe, expect, it } from 'vitest';
import { MemoryGate, type SmallSlot } from '../../../src/service/admission/memory-gate.ts';

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
const never = new AbortController().signal;

/** Enters runs of these sizes; says which are inside. */
function enterAll(gate: MemoryGate, sizes: readonly number[], organization = 'own') {
  const leave: ((() => void) | null | undefined)[] = sizes.map(() => undefined);
  for (const [index, bytes] of sizes.entries()) {
    void gate.enter(bytes, organization).then((admitted) => {
      leave[index] = admitted;
    });
  }
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

  it('leaves memory for another organization, however long the runs of one last', async () => {
    const gate = new MemoryGate(100, 0, 4, 30);
    const own = enterAll(gate, [30, 30, 30, 30]);
    expect(await own.inside()).toEqual([0, 1]);
    const other = enterAll(gate, [30], 'other');
    expect(await other.inside()).toEqual([0]);
    own.leave(0);
    expect(await own.inside()).toEqual([0, 1, 2]);
  });

  it('lets the only run of an organization in, whatever it needs', async () => {
    const own = enterAll(new MemoryGate(100, 0, 4, 30), [90, 5]);
    expect(await own.inside()).toEqual([0]);
    own.leave(0);
    expect(await own.inside()).toEqual([0, 1]);
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
    expect(await gate.enter(1, 'own')).toBeNull();
  });
});

describe('a run inside that needs more memory', () => {
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

describe('small runs', () => {
  /** Enters small runs of 5 bytes. */
  function enterSmall(gate: MemoryGate, count: number) {
    const places: SmallSlot[] = [];
    for (let n = 0; n < count; n += 1) {
      void gate.enterSmall(5, 'own').then((place) => {
        if (place) places.push(place);
      });
    }
    return {
      async inside() {
        await settled();
        return places.length;
      },
      leave: (index: number) => places[index]?.leave(),
      outgrow: (index: number, bytes: number) => places[index]?.outgrow(bytes),
    };
  }

  it('have a share that large runs do not take, and do not wait behind one that waits', async () => {
    const gate = new MemoryGate(100, 20);
    const large = enterAll(gate, [40, 40, 40]);
    expect(await large.inside()).toEqual([0, 1]);
    const small = enterSmall(gate, 6);
    expect(await small.inside()).toBe(4);
    expect(gate.usedBytes).toBe(100);
    small.leave(0);
    expect(await small.inside()).toBe(5);
  });

  it('use all that is free, and go back to their share for a large run that waits', async () => {
    const gate = new MemoryGate(100, 20);
    const small = enterSmall(gate, 30);
    expect(await small.inside()).toBe(20);
    const large = enterAll(gate, [60]);
    for (let left = 0; left < 12; left += 1) {
      expect(await large.inside()).toEqual([]);
      small.leave(left);
    }
    expect(await large.inside()).toEqual([0]);
    expect(await small.inside()).toBe(20);
    expect(gate.usedBytes).toBe(100);
    for (let left = 12; left < 20; left += 1) small.leave(left);
    expect(await small.inside()).toBe(28);
  });

  it('leave a large run alone that needs their share too', async () => {
    const gate = new MemoryGate(100, 20);
    const small = enterSmall(gate, 3);
    expect(await small.inside()).toBe(3);
    const large = enterAll(gate, [95, 500]);
    const later = enterSmall(gate, 1);
    expect(await later.inside()).toBe(0);
    for (const index of [0, 1]) small.leave(index);
    expect(await large.inside()).toEqual([0]);
    small.leave(2);
    expect(await later.inside()).toBe(1);
    large.leave(0);
    // The run of 500 waits for all others.
    const last = enterSmall(gate, 1);
    expect(await large.inside()).toEqual([0]);
    later.leave(0);
    expect(await large.inside()).toEqual([0, 1]);
    expect(await last.inside()).toBe(0);
    large.leave(1);
    expect(await last.inside()).toBe(1);
  });

  it('that outgrow their place get the memory of a large run only if it is free', async () => {
    const gate = new MemoryGate(100, 20);
    const small = enterSmall(gate, 2);
    expect(await small.inside()).toBe(2);
    const large = enterAll(gate, [40]);
    expect(await large.inside()).toEqual([0]);
    expect(small.outgrow(0, 50)).toBe(false);
    expect(gate.usedBytes).toBe(50);
    expect(small.outgrow(0, 40)).toBe(true);
    expect(small.outgrow(0, 40)).toBe(true);
    expect(gate.usedBytes).toBe(85);
    small.leave(0);
    expect(gate.usedBytes).toBe(45);
    // A large run that waits comes first.
    const waiting = enterAll(gate, [50]);
    expect(await waiting.inside()).toEqual([]);
    expect(small.outgrow(1, 30)).toBe(false);
  });

  it('outgrow their place only if a slot is free', async () => {
    const gate = new MemoryGate(1_000, 20, 1);
    const small = enterSmall(gate, 2);
    expect(await small.inside()).toBe(2);
    expect(small.outgrow(0, 50)).toBe(true);
    expect(small.outgrow(1, 50)).toBe(false);
    small.leave(0);
    expect(small.outgrow(1, 50)).toBe(true);
  });

  it('do not keep large rows waiting for ever', async () => {
    const gate = new MemoryGate(100, 20);
    const large = enterAll(gate, [40]);
    expect(await large.inside()).toEqual([0]);
    const small = enterSmall(gate, 12);
    expect(await small.inside()).toBe(12);
    let granted = false;
    void gate.grow(55, never).then(() => {
      granted = true;
    });
    for (let left = 0; left < 11; left += 1) {
      await settled();
      expect(granted).toBe(false);
      small.leave(left);
    }
    await settled();
    expect(granted).toBe(true);
    expect(gate.usedBytes).toBe(100);
  });

  it('are refused once the gate is closed', async () => {
    const gate = new MemoryGate(100, 20);
    gate.close();
    expect(await gate.enterSmall(5, 'own')).toBeNull();
  });
});
