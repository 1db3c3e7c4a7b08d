/** Locks in one Redis, for coordination that may fail now and then. */
@NullMarked
package dev.mortise.lock.redis;

import org.jspecify.annotations.NullMarked;
