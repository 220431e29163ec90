/** polars; null on a platform that it has no binary for. */
export const polars = await import('nodejs-polars').then(
  (module) => module.default,
  () => null,
);
