/**
 * The advisory lock that each session to our own tables holds, shared, from its start. Its two keys spell `slce` `stor`.
 * Such a session writes no rows of a source.
 */
export const storeMark = [0x736c6365, 0x73746f72] as const;
