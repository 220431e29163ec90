/** Changes to the protocol, each of which breaks an invariant: the model must find how. */

export const mutants = {
  reuse_keys: 'fault 1: keys are used again, and a cleanup that wakes late deletes at them',
  overwrite_named_keys: 'fault 5: files are replaced at keys that the current manifest names',
  unchanged_beside_a_sleeper: 'a re-run with equal bytes ends although an earlier put may yet land',
  unchanged_at_a_former_prefix: 'a re-run ends on a manifest that is about to get a tombstone',
  tombstone_only_where_the_receipt_is:
    'a prefix with a commit that began, but was not recorded, is left',
  delete_the_old_manifest: 'a moved interval deletes its old manifest instead of a tombstone',
  tombstone_without_generation: 'a tombstone is put also on a manifest of a later generation',
  delete_before_tombstone: 'files at a former prefix are deleted while their manifest is current',
  put_on_a_fresh_tag: 'the manifest is put on a tag read after the last fence',
  share_a_generation: 'an attempt writes under the generation of the one before',
  remove_uncommitted_early: 'the sweep removes a generation that no later manifest has replaced',
  delete_own_files_after_a_conflict: 'an attempt deletes its files after a refused put',
  delete_again_before_the_look:
    'files are deleted the second time while an upload may still become one',
  abort_what_a_live_attempt_has: 'a look aborts uploads by their age alone',
  abort_what_a_sleeper_has: 'a look aborts an upload whose commit may be in progress',
  forget_the_place_at_once: 'a look forgets a place where an upload may have begun since',
  adopt_without_digests: 'a manifest of the own run is recorded without a look at its digests',
  generation_from_receipt_only: 'generations are counted from the receipt, not from all runs',
  no_floor_from_manifest: 'after a restore, generations are counted from the database alone',
  fence_without_era: 'after a restore, a fence of the lost history is taken for a new one',
  skip_presence_check: 'equal digests are enough, also if the files are gone',
  put_over_what_is_there: 'a small file is put without If-None-Match',
  first_commit_reads_nothing:
    'a first attempt trusts that the store keeps If-None-Match, and does not look for a manifest',
  receipt_moves_without_a_record:
    'what is current at a place that the export leaves is on no record',
  places_by_their_address: 'one place by two addresses counts as two',
  delete_what_was_noted: 'an object counts as ours because its key was noted',
  keep_files_of_a_refused_commit: "files stay though another export's manifest refused theirs",
  forget_after_one_deletion: 'a deleted file is forgotten although its put may still take effect',
} as const;

export type Mutant = keyof typeof mutants;
