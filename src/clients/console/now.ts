import { useEffect, useState } from 'react';

/** The current time in milliseconds since the Unix epoch, updated while the page is visible. */
export function useNow(everyMs = 15_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now());
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The present month and the eleven before it, in UTC, newest first. */
export function lastMonths(now: number): readonly string[] {
  const at = new Date(now);
  return Array.from({ length: 12 }, (_, back) =>
    new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - back)).toISOString().slice(0, 7),
  );
}
