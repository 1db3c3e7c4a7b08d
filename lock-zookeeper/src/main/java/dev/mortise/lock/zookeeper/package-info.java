/** Locks in a ZooKeeper ensemble: for stakes that are high. */
@NullMarked
package dev.mortise.lock.zookeeper;

import org.jspecify.annotations.NullMarked;
