/**
 * The compatibility kit: {@link dev.mortise.lock.tck.LockTck} is extended by the tests of each backend, with a
 * {@link dev.mortise.lock.tck.Store} that the author writes. The rules that it tests are in {@code docs/spec.md}.
 */
@NullMarked
package dev.mortise.lock.tck;

import org.jspecify.annotations.NullMarked;
