// A host whose clock is wrong: `node --import <this file>` with CLOCK_SHIFT_MS set. The monotonic clock and
// timers stay as they are, as they do on such a host.
const shiftMs = Number(process.env.CLOCK_SHIFT_MS ?? 0);
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...given) {
    if (given.length === 0) super(RealDate.now() + shiftMs);
    else super(...given);
  }

  static now() {
    return RealDate.now() + shiftMs;
  }
};
