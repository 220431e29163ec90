/** The lock that each session to our own tables shares (`slce` `stor`). Such a session writes no rows of a source. */
export const storeMark = [0x736c6365, 0x73746f72] as const;
