/** A function that `make` makes, at its first call or at that of `makeNow`. What `make` throws, the call throws. */
export function madeLate<Given extends unknown[], Result>(
  make: () => (...given: Given) => Result,
): { readonly call: (...given: Given) => Result; makeNow(): void } {
  let call: ((...given: Given) => Result) | undefined;
  const callOf = () => {
    call ??= make();
    return call;
  };
  return { call: (...given) => callOf()(...given), makeNow: () => void callOf() };
}
