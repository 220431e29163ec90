import { useEffect, useState } from 'react';

/** Milliseconds since the Unix epoch by this machine's clock. */
export function readNow(): number {
  return performance.timeOrigin + performance.now();
}

/** The present, renewed every so often while the page is looked at. */
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
