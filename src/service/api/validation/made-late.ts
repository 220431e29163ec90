/** A function that `make` makes, at its first call or at that of `makeNow`. What `make` throws, the call throws. */
export function madeLate<Given extends unknown[], Result>(
  make: () => (...given: Given) => Result,
): { readonly call: (...given: Given) => Result; makeNow(): void } {
  let made: ((...given: Given) => Result) | undefined;
  const known = () => {
    made ??= make();
    return made;
  };
  return { call: (...given) => known()(...given), makeNow: () => void known() };
}
