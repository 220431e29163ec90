import { useEffect, useState } from 'react';

/** Milliseconds since the Unix epoch by this machine's clock. */
export function readNow(): number {
  return performance.timeOrigin + performance.now();
}

/** The current time, updated while the page is visible. */
export function useNow(everyMs = 15_000): number {
  const [now, setNow] = useState(readNow);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(readNow());
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
