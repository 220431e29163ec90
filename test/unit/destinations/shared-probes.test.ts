import { describe, expect, it } from 'vitest';
import { allTraits, type StoreTraits } from '../../../src/rows/destinations/destination.ts';
import { SharedProbes } from '../../../src/rows/destinations/shared-probes.ts';

const later = () => AbortSignal.timeout(30_000);

const longAgoMs = 3_600_000;

/** A probe that ends when the test says so, and how often it was made. */
function openProbe() {
  let [resolve, reject] = [(_: StoreTraits) => {}, (_: Error) => {}];
  const promise = new Promise<StoreTraits>((...ends) => {
    [resolve, reject] = ends;
  });
  const probe = {
    made: 0,
    resolve,
    reject,
    run: () => {
      probe.made += 1;
      return promise;
    },
  };
  return probe;
}

describe('what a probe found', () => {
  it('is shared by those that come while it runs, and after it', async () => {
    const shared = new SharedProbes();
    const probe = openProbe();
    const together = [1, 2, 3].map(() => shared.find('a', longAgoMs, probe.run, later()));
    probe.resolve(allTraits);
    expect(await Promise.all(together)).toEqual([allTraits, allTraits, allTraits]);
    await shared.find('a', longAgoMs, probe.run, later());
    expect(probe.made).toBe(1);
  });

  it('is not shared with another store, project or key', async () => {
    const shared = new SharedProbes();
    const probe = openProbe();
    probe.resolve(allTraits);
    await shared.find('a', longAgoMs, probe.run, later());
    await shared.find('b', longAgoMs, probe.run, later());
    expect(probe.made).toBe(2);
  });

  it('is shared for ten minutes, and not once the store behaved differently', async () => {
    let now = 0;
    const shared = new SharedProbes(() => now);
    const probe = openProbe();
    probe.resolve(allTraits);
    await shared.find('a', longAgoMs, probe.run, later());
    now = 10 * 60_000 - 1;
    await shared.find('a', longAgoMs, probe.run, later());
    expect(probe.made).toBe(1);
    now += 1;
    await shared.find('a', longAgoMs, probe.run, later());
    expect(probe.made).toBe(2);
    shared.forget('a');
    await shared.find('a', longAgoMs, probe.run, later());
    expect(probe.made).toBe(3);
  });

  it('is not shared with an export that was changed after the probe began', async () => {
    let now = 0;
    const shared = new SharedProbes(() => now);
    const probe = openProbe();
    const first = shared.find('a', longAgoMs, probe.run, later());
    now = 1_000;
    const other = shared.find('a', 999, probe.run, later());
    expect(probe.made).toBe(2);
    probe.resolve(allTraits);
    await Promise.all([first, other]);
    now = 2_000;
    await shared.find('a', 1_001, probe.run, later());
    expect(probe.made).toBe(2);
    await shared.find('a', 1_000, probe.run, later());
    expect(probe.made).toBe(3);
  });

  it('is kept for a limited number of stores', async () => {
    const shared = new SharedProbes();
    const probe = openProbe();
    probe.resolve(allTraits);
    for (let n = 0; n <= 1_000; n += 1) await shared.find(`${n}`, longAgoMs, probe.run, later());
    expect(probe.made).toBe(1_001);
    await shared.find('1000', longAgoMs, probe.run, later());
    expect(probe.made).toBe(1_001);
    await shared.find('0', longAgoMs, probe.run, later());
    expect(probe.made).toBe(1_002);
  });
});

describe('a probe that fails', () => {
  it('fails only for the export that made it', async () => {
    const shared = new SharedProbes();
    const failing = openProbe();
    const first = shared.find('a', longAgoMs, failing.run, later());
    const own = openProbe();
    const second = shared.find('a', longAgoMs, own.run, later());
    failing.reject(new Error('denied'));
    await expect(first).rejects.toThrow('denied');
    own.resolve(allTraits);
    expect(await second).toEqual(allTraits);
    expect(own.made).toBe(1);
  });

  it('holds up no run that is cancelled meanwhile', async () => {
    const shared = new SharedProbes();
    const endless = openProbe();
    void shared.find('a', longAgoMs, endless.run, later());
    const cancel = new AbortController();
    const waiting = shared.find('a', longAgoMs, endless.run, cancel.signal);
    cancel.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
    expect(endless.made).toBe(1);
  });
});
