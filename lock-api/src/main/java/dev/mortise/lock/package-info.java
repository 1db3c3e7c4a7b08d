/**
 * Mortise: only one process, on any of your servers, works on a resource at a time, and a holder whose lease has run
 * out cannot do harm.
 *
 * <p>Start with {@link dev.mortise.lock.LockClient}.
 */
@NullMarked
package dev.mortise.lock;

import org.jspecify.annotations.NullMarked;
