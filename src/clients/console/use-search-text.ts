import { useEffect, useRef, useState } from 'react';
import { useQuery } from './use-query.ts';

/** Time without a key before a search begins. */
const pauseMs = 300;

/**
 * The text of a search field. It becomes the parameter `search` after a short pause in typing, and follows the
 * address if that changes otherwise, as by "back".
 */
export function useSearchText(): readonly [string, (text: string) => void] {
  const { query, replaceQuery } = useQuery();
  const searchText = query.get('search') ?? '';
  const [text, setText] = useState(searchText);
  const last = useRef(searchText);
  useEffect(() => {
    if (searchText === last.current) return;
    last.current = searchText;
    setText(searchText);
  }, [searchText]);
  useEffect(() => {
    if (text === last.current) return;
    const timer = setTimeout(() => {
      last.current = text;
      replaceQuery({ search: text, from: null });
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text, replaceQuery]);
  return [text, setText];
}
