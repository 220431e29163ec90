/** Maximum bytes of a page of a list, and of an answer of a log, unless one item alone has more. */
export const maxPageBytes = 1024 ** 2;
