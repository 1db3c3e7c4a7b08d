/** The client API of Mortise, and the interface that stores implement. */
module dev.mortise.lock {
    requires static com.google.errorprone.annotations;
    requires static org.jspecify;

    exports dev.mortise.lock;
    exports dev.mortise.lock.spi;

    uses dev.mortise.lock.spi.BackendProvider;
}
