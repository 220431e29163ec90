import type { DraftState } from '../use-kept-draft.ts';

/** Says that the form shows what was typed before, with a button to begin afresh. */
export function KeptDraftNotice({ kept }: Pick<DraftState, 'kept'>) {
  if (kept === null) return null;
  return (
    <div className="row alert is-paused" role="status">
      <p>
        <strong>Your unsaved changes are back.</strong> Secrets were not kept: enter them again.
        {kept.isOutdated && ' The export was changed meanwhile: compare before you save.'}
      </p>
      <button type="button" onClick={kept.startOver}>
        Start over
      </button>
    </div>
  );
}
