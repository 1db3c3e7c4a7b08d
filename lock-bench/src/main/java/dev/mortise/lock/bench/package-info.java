/**
 * Mortise beside the bare floor and beside the libraries people use today: the same machine, the same servers, the same
 * run. {@link dev.mortise.lock.bench.Main} is the command; {@link dev.mortise.lock.bench.Scenario} says what is measured and
 * how, {@link dev.mortise.lock.bench.Peer} who takes part, {@link dev.mortise.lock.bench.Goals} what Mortise is to reach.
 */
@NullMarked
package dev.mortise.lock.bench;

import org.jspecify.annotations.NullMarked;
