package dev.mortise.lock;

import static java.util.stream.Collectors.joining;

import java.io.IOException;
import java.io.InputStream;
import java.lang.module.ModuleDescriptor;
import java.lang.reflect.AnnotatedArrayType;
import java.lang.reflect.AnnotatedParameterizedType;
import java.lang.reflect.AnnotatedType;
import java.lang.reflect.AnnotatedWildcardType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.TypeVariable;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What a module shows to the world, as text: its exports and, for each public type, a line and under it a line for
 * each public or protected member. The text is compared with {@code public-api.txt} beside the module's POM, so that
 * no change of it goes unread.
 *
 * <p>By reflection over the compiled classes, with a rendering of our own: the JDK's changes between releases.
 */
public final class PublicApi {

    private static final Pattern WELL_KNOWN =
            Pattern.compile("\\bjava\\.(lang|time|util|util\\.function|util\\.concurrent)\\.(?=[A-Z])");

    private final Path classes;

    private PublicApi(Path classes) {
        this.classes = classes;
    }

    /** Fails, with the difference and the way to accept it, unless the module of this class is as reviewed. */
    public static void assertReviewed(Class<?> anyOfTheModule) throws IOException {
        Path classes = root(anyOfTheModule);
        Path module = classes.getParent().getParent();
        List<String> actual = new PublicApi(classes).lines(anyOfTheModule.getClassLoader());
        Path reviewed = module.resolve("public-api.txt");
        List<String> expected = Files.exists(reviewed) ? Files.readAllLines(reviewed) : List.of();
        if (actual.equals(expected)) {
            return;
        }
        Files.write(classes.resolveSibling("public-api.txt"), actual);
        throw new AssertionError(difference(module.getFileName().toString(), expected, actual));
    }

    private static Path root(Class<?> type) {
        try {
            return Path.of(
                    type.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String difference(String module, List<String> expected, List<String> actual) {
        Set<String> removed = withOwners(expected);
        Set<String> added = withOwners(actual);
        Set<String> kept = new LinkedHashSet<>(removed);
        kept.retainAll(added);
        removed.removeAll(kept);
        added.removeAll(kept);
        return Stream.of(
                        Stream.of("the public API of " + module + " is not what " + module + "/public-api.txt says:"),
                        removed.stream().map(line -> "- " + line),
                        added.stream().map(line -> "+ " + line),
                        Stream.of("Meant so? Then: cp " + module + "/target/public-api.txt " + module
                                + "/public-api.txt, and have it reviewed with the change."))
                .flatMap(lines -> lines)
                .collect(joining("\n"));
    }

    /** A member's line says nothing without the type that it stands under. */
    private static Set<String> withOwners(List<String> lines) {
        Set<String> result = new LinkedHashSet<>();
        String owner = "";
        for (String line : lines) {
            if (line.startsWith("  ")) {
                result.add(owner + line.substring(1));
            } else {
                result.add(line);
                owner = line.split("(?<=:) ", 2)[0];
            }
        }
        return result;
    }

    private List<String> lines(ClassLoader loader) throws IOException {
        List<String> lines = new ArrayList<>(moduleLines());
        TreeMap<String, Class<?>> types = new TreeMap<>();
        try (Stream<Path> files = Files.walk(classes)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                String path = classes.relativize(file).toString();
                if (path.endsWith(".class") && !path.endsWith("-info.class")) {
                    Class<?> type = load(path, loader);
                    if (isPublished(type)) {
                        types.put(type.getCanonicalName(), type);
                    }
                }
            }
        }
        for (Class<?> type : types.values()) {
            lines.add(typeLine(type));
            memberLines(type).forEach(line -> lines.add("  " + line));
        }
        return lines;
    }

    private static Class<?> load(String path, ClassLoader loader) {
        String name = path.substring(0, path.length() - ".class".length()).replace('/', '.');
        try {
            return Class.forName(name, false, loader);
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    private Set<String> moduleLines() throws IOException {
        Set<String> lines = new TreeSet<>();
        Path info = classes.resolve("module-info.class");
        if (!Files.exists(info)) {
            return lines;
        }
        try (InputStream in = Files.newInputStream(info)) {
            ModuleDescriptor module = ModuleDescriptor.read(in);
            String name = "module " + module.name() + " ";
            module.exports().forEach(it -> lines.add(name + "exports " + it.source() + targets(it.targets())));
            module.opens().forEach(it -> lines.add(name + "opens " + it.source() + targets(it.targets())));
            module.provides().forEach(it -> lines.add(name + "provides " + it.service()));
            module.uses().forEach(it -> lines.add(name + "uses " + it));
            module.requires().stream()
                    .filter(it -> it.modifiers().contains(ModuleDescriptor.Requires.Modifier.TRANSITIVE))
                    .forEach(it -> lines.add(name + "requires transitive " + it.name()));
        }
        return lines;
    }

    private static String targets(Set<String> modules) {
        return modules.isEmpty() ? "" : " to " + String.join(", ", new TreeSet<>(modules));
    }

    private static boolean isPublished(Class<?> type) {
        return !type.isAnonymousClass()
                && !type.isLocalClass()
                && isVisible(type.getModifiers(), type)
                && (type.getDeclaringClass() == null || isPublished(type.getDeclaringClass()));
    }

    /** Protected counts where somebody can extend the class that has it. */
    private static boolean isVisible(int modifiers, Class<?> type) {
        Class<?> owner = type.getDeclaringClass() == null ? type : type.getDeclaringClass();
        return Modifier.isPublic(modifiers)
                || (Modifier.isProtected(modifiers) && !Modifier.isFinal(owner.getModifiers()));
    }

    private static String typeLine(Class<?> type) {
        StringBuilder line = new StringBuilder();
        boolean implied = type.isInterface() || type.isEnum() || type.isRecord();
        int shown = Modifier.PROTECTED | (implied ? 0 : Modifier.STATIC | Modifier.ABSTRACT | Modifier.FINAL);
        line.append(modifiers(type.getModifiers(), shown))
                .append(type.isSealed() ? "sealed " : "")
                .append(kind(type));
        if (type.getSuperclass() != null && !implied && type.getSuperclass() != Object.class) {
            line.append(" extends ").append(render(type.getAnnotatedSuperclass()));
        }
        if (type.getInterfaces().length > 0) {
            line.append(type.isInterface() ? " extends " : " implements ").append(list(type.getAnnotatedInterfaces()));
        }
        if (type.isSealed()) {
            line.append(" permits ")
                    .append(Arrays.stream(type.getPermittedSubclasses())
                            .map(Class::getCanonicalName)
                            .sorted()
                            .collect(joining(", ")));
        }
        if (type.isEnum()) { // in their order, on which compareTo goes
            line.append(Arrays.stream(type.getFields())
                    .filter(Field::isEnumConstant)
                    .map(Field::getName)
                    .collect(joining(", ", " {", "}")));
        }
        String parameters = typeParameters(type.getTypeParameters());
        return type.getCanonicalName() + shorten(parameters + ": " + line, type.getPackageName());
    }

    private static String kind(Class<?> type) {
        if (type.isAnnotation()) {
            return "@interface";
        } else if (type.isInterface()) {
            return "interface";
        } else if (type.isEnum()) {
            return "enum";
        } else {
            return type.isRecord() ? "record" : "class";
        }
    }

    private static Set<String> memberLines(Class<?> type) {
        Set<String> lines = new TreeSet<>();
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            if (isVisible(constructor.getModifiers(), type) && !constructor.isSynthetic()) {
                lines.add(line(constructor, type, type.getSimpleName()));
            }
        }
        // What a class inherits from one that is not published is its own to whoever uses it.
        for (Class<?> owner = type;
                owner != null && (owner == type || !isPublished(owner));
                owner = owner.getSuperclass()) {
            for (Method method : owner.getDeclaredMethods()) {
                if (isVisible(method.getModifiers(), type) && !method.isSynthetic() && !isImplied(method)) {
                    lines.add(line(method, type, render(method.getAnnotatedReturnType()) + " " + method.getName()));
                }
            }
            for (Field field : owner.getDeclaredFields()) {
                if (isVisible(field.getModifiers(), type) && !field.isSynthetic() && !field.isEnumConstant()) {
                    lines.add(shorten(
                            modifiers(field.getModifiers(), Modifier.PROTECTED | Modifier.STATIC | Modifier.FINAL)
                                    + render(field.getAnnotatedType()) + " " + field.getName(),
                            type.getPackageName()));
                }
            }
        }
        return lines;
    }

    /** What every enum and every record has. */
    private static boolean isImplied(Method method) {
        Class<?> owner = method.getDeclaringClass();
        return (owner.isEnum()
                        && (method.getName().equals("values")
                                || method.getName().equals("valueOf")))
                || (owner.isRecord()
                        && List.of("equals", "hashCode", "toString").contains(method.getName()));
    }

    private static String line(Executable member, Class<?> type, String name) {
        int shown = Modifier.PROTECTED | Modifier.STATIC;
        if (!type.isInterface()) {
            shown |= Modifier.ABSTRACT | (Modifier.isFinal(type.getModifiers()) ? 0 : Modifier.FINAL);
        }
        String parameters = list(member.getAnnotatedParameterTypes());
        if (member.isVarArgs()) {
            parameters = parameters.substring(0, parameters.length() - "[]".length()) + "...";
        }
        String generics = typeParameters(member.getTypeParameters());
        return shorten(
                modifiers(member.getModifiers(), shown)
                        + (member instanceof Method method && method.isDefault() ? "default " : "")
                        + (generics.isEmpty() ? "" : generics + " ")
                        + name + "(" + parameters + ")"
                        + (member instanceof Method method && method.getDefaultValue() != null ? " default" : "")
                        + (member.getExceptionTypes().length == 0
                                ? ""
                                : " throws " + list(member.getAnnotatedExceptionTypes())),
                type.getPackageName());
    }

    private static String modifiers(int all, int shown) {
        String text = Modifier.toString(all & shown);
        return text.isEmpty() ? "" : text + " ";
    }

    private static String typeParameters(TypeVariable<?>[] variables) {
        return variables.length == 0
                ? ""
                : Arrays.stream(variables)
                        .map(variable -> variable.getName() + bounds(" extends ", variable.getAnnotatedBounds()))
                        .collect(joining(", ", "<", ">"));
    }

    private static String bounds(String keyword, AnnotatedType[] bounds) {
        String text = Arrays.stream(bounds).map(PublicApi::render).collect(joining(" & "));
        return text.isEmpty() || text.equals("java.lang.Object") ? "" : keyword + text;
    }

    private static String list(AnnotatedType[] types) {
        return Arrays.stream(types).map(PublicApi::render).collect(joining(", "));
    }

    private static String render(AnnotatedType type) {
        String nullable = type.isAnnotationPresent(Nullable.class) ? "@Nullable " : "";
        if (type instanceof AnnotatedArrayType array) {
            return render(array.getAnnotatedGenericComponentType()) + (nullable.isEmpty() ? "[]" : " @Nullable []");
        } else if (type instanceof AnnotatedWildcardType wildcard) {
            return "?"
                    + (wildcard.getAnnotatedLowerBounds().length > 0
                            ? bounds(" super ", wildcard.getAnnotatedLowerBounds())
                            : bounds(" extends ", wildcard.getAnnotatedUpperBounds()));
        } else if (type instanceof AnnotatedParameterizedType generic) {
            String raw = type.getType().getTypeName().split("<", 2)[0];
            return nullable + raw.replace('$', '.') + "<" + list(generic.getAnnotatedActualTypeArguments()) + ">";
        }
        return nullable + type.getType().getTypeName().replace('$', '.');
    }

    private static String shorten(String line, String ownPackage) {
        return WELL_KNOWN
                .matcher(line)
                .replaceAll("")
                .replaceAll("\\b" + Pattern.quote(ownPackage) + "\\.(?=[A-Z])", "");
    }
}
