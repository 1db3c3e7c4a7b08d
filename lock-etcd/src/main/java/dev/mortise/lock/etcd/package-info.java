/** Locks in an etcd cluster: for what must not be held twice, and is still checked by its token. */
@NullMarked
package dev.mortise.lock.etcd;

import org.jspecify.annotations.NullMarked;
