/** Locks in a majority of independent Redis servers. */
@NullMarked
package dev.mortise.lock.redlock;

import org.jspecify.annotations.NullMarked;
