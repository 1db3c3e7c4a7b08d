/**
 * For authors of stores: the small interface that a store implements, and what goes in and out of it.
 *
 * <p>Start with {@link dev.mortise.lock.spi.LockBackend}, whose comment is the whole contract. Users of locks need
 * nothing from here.
 */
@NullMarked
package dev.mortise.lock.spi;

import org.jspecify.annotations.NullMarked;
