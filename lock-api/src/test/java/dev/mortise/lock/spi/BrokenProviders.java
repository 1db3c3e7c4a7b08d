package dev.mortise.lock.spi;

import java.util.List;
import java.util.Map;

/** Modules that are on the class path and of no use, each in its own way. */
public final class BrokenProviders {
    private BrokenProviders() {}

    /** What all of them have in common, were they to load. */
    public abstract static class Base implements BackendProvider {
        protected Base() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("broken", TestProviders.guarantees(Consistency.CONSENSUS));
        }

        @Override
        public List<Option<?>> options() {
            return List.of();
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            throw new IllegalStateException("not for use");
        }
    }

    /** Its constructor throws. */
    public static final class Constructor extends Base {
        public Constructor() {
            throw new IllegalStateException("no constructor today");
        }
    }

    /** Its class cannot be initialized. */
    public static final class StaticInit extends Base {
        static final int NUMBER = Integer.parseInt("no number today");

        public StaticInit() {}
    }

    /** Has no constructor without parameters. */
    public static final class Parameter extends Base {
        public Parameter(String parameter) {
            super();
        }
    }

    /** Not a provider at all. */
    public static final class Stranger {
        public Stranger() {}
    }

    /** Extends a class that may be missing. */
    public static class Parent extends Base {
        public Parent() {}
    }

    /** Extends it. */
    public static final class Orphan extends Parent {
        public Orphan() {}
    }

    /** A driver that may be missing. */
    public static final class Driver {
        private Driver() {}

        static List<Option<?>> options() {
            return List.of();
        }
    }

    /** Needs the driver to say what its options are. */
    public static final class NeedsDriver extends Base {
        public NeedsDriver() {}

        @Override
        public List<Option<?>> options() {
            return Driver.options();
        }
    }

    /** Throws when asked for its schemes. */
    public static final class Schemes extends Base {
        public Schemes() {}

        @Override
        public Map<String, Guarantees> schemes() {
            throw new IllegalStateException("no schemes today");
        }
    }

    /** Compiled against an interface that had another method. */
    public static final class Outdated extends Base {
        public Outdated() {}

        @Override
        public Map<String, Guarantees> schemes() {
            throw new AbstractMethodError("schemes");
        }
    }
}
