import { type Dispatch, type SetStateAction, useCallback, useEffect, useState } from 'react';
import type { BatchExport } from './api-types.ts';
import { useConsole } from './console-context.ts';
import type { Draft } from './form/draft.ts';
import type { ApiDescription } from './form/openapi.ts';
import { draftItem, readDraft, textOfDraft } from './kept-drafts.ts';
import { currentHash, projectOf } from './route.ts';

export interface DraftState {
  readonly draft: Draft;
  readonly setDraft: Dispatch<SetStateAction<Draft>>;
  /** The sentence of the form about a draft that it took up again; null: it begins afresh. */
  readonly kept: { readonly isOutdated: boolean; readonly startOver: () => void } | null;
  /** Call it once the draft is saved or discarded. */
  readonly forget: () => void;
}

/**
 * The draft of the export's form. It is kept in `sessionStorage`, without secrets: it survives a revoked key, an
 * expired session and a reload, and ends with its tab, with a sign-out, or once it is saved.
 *
 * @param fresh the draft of an untouched form
 */
export function useKeptDraft(
  description: ApiDescription,
  batchExport: BatchExport | null,
  fresh: () => Draft,
): DraftState {
  const { me } = useConsole();
  const item =
    me && draftItem(me.organization.id, projectOf(currentHash()) ?? '', batchExport?.id ?? null);
  const base = batchExport?.last_updated_at ?? '';
  const [first] = useState(fresh);
  const [found, setFound] = useState(() =>
    readDraft(description, item && sessionStorage.getItem(item), first),
  );
  const [draft, setDraft] = useState(found?.draft ?? first);
  const [isOver, setOver] = useState(false);
  const foundBase = found?.base ?? base;
  useEffect(() => {
    if (!item) return;
    const text = textOfDraft(description, draft, foundBase);
    if (isOver || text === textOfDraft(description, first, foundBase))
      sessionStorage.removeItem(item);
    else storeText(item, text);
  }, [description, item, draft, first, foundBase, isOver]);
  const startOver = () => {
    setDraft(first);
    setFound(null);
  };
  const forget = useCallback(() => {
    setOver(true);
    // The form can be gone before the effect.
    if (item) sessionStorage.removeItem(item);
  }, [item]);
  return {
    draft,
    setDraft,
    kept: found && { isOutdated: found.base !== base, startOver },
    forget,
  };
}

/** Without room in the storage the draft lasts as long as its form. */
function storeText(item: string, text: string): void {
  try {
    sessionStorage.setItem(item, text);
  } catch {
    sessionStorage.removeItem(item);
  }
}
