package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Client libraries of other languages are installed by the tests, at the versions in clients/, into a folder of the
// user's cache, once for each list of versions. Where that cannot be done the test says so and is skipped; in continuous
// integration it fails.

const (
	installTimeout  = 5 * time.Minute
	installAttempts = 2
	oldestNode      = 18
)

// pythonPackages gives the interpreter and the folder of its packages.
func pythonPackages(t *testing.T) (python, folder string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	list, err := filepath.Abs(filepath.Join("clients", "python", "requirements.txt"))
	require.NoError(t, err)
	version, err := bounded(t, installTimeout, exec.Command(python, "--version"))
	require.NoError(t, err, version)
	return python, installed(t, "python", list, version, func(into string) []*exec.Cmd {
		environment := filepath.Join(t.TempDir(), "environment")
		return []*exec.Cmd{
			exec.Command(python, "-m", "venv", environment),
			exec.Command(filepath.Join(environment, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-input",
				"--disable-pip-version-check", "--no-deps", "--target", into, "--requirement", list),
		}
	})
}

// nodePackages gives the interpreter and a folder with the scripts beside their packages, where node looks for them.
func nodePackages(t *testing.T) (node, scripts string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	version, err := bounded(t, installTimeout, exec.Command(node, "--version"))
	require.NoError(t, err, version)
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNode {
		t.Skipf("node is %s, the packages need %d or later", strings.TrimSpace(version), oldestNode)
	}
	list := filepath.Join("clients", "node", "packages.txt")
	content, err := os.ReadFile(list)
	require.NoError(t, err)
	folder := installed(t, "node", list, version, func(into string) []*exec.Cmd {
		install := exec.Command(npm, append([]string{"install", "--prefix", into, "--no-save", "--no-package-lock", "--no-audit",
			"--no-fund", "--ignore-scripts", "--loglevel=error"}, strings.Fields(string(content))...)...)
		install.Dir = into
		return []*exec.Cmd{install}
	})
	return node, besidePackages(t, filepath.Join(folder, "node_modules"))
}

func besidePackages(t *testing.T, packages string) (scripts string) {
	t.Helper()
	scripts = t.TempDir()
	require.NoError(t, os.CopyFS(scripts, os.DirFS(filepath.Join("clients", "node"))))
	require.NoError(t, os.Symlink(packages, filepath.Join(scripts, "node_modules")))
	return scripts
}

// asynqProgram builds clients/asynq, which is a module of its own.
func asynqProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "asynq")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join("clients", "asynq")
	requireInstalled(t, build)
	return program
}

// rubyWithSidekiq gives the interpreter. Sidekiq is the system's package: scripts/install-test-tools installs it.
func rubyWithSidekiq(t *testing.T) (ruby string) {
	t.Helper()
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("ruby is not installed")
	}
	if output, err := bounded(t, installTimeout, exec.Command(ruby, "-W0", "-e", "require 'sidekiq'; exit Sidekiq::VERSION.start_with?('6.')")); err != nil {
		t.Skipf("Sidekiq 6 is not installed (on Debian: ruby-sidekiq): %v %s", err, output)
	}
	return ruby
}

// lettuceProgram compiles clients/java and gives the Java that runs it and the class path.
func lettuceProgram(t *testing.T) (java, classPath string) {
	t.Helper()
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	list, err := filepath.Abs(filepath.Join("clients", "java", "pom.xml"))
	require.NoError(t, err)
	version, err := bounded(t, installTimeout, exec.Command("javac", "-version"))
	require.NoError(t, err, version)
	packages := installed(t, "java", list, version, func(into string) []*exec.Cmd {
		return []*exec.Cmd{exec.Command("mvn", "--batch-mode", "--quiet", "--file", list,
			"org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies", "-DoutputDirectory="+into)}
	})
	classes, jars := t.TempDir(), filepath.Join(packages, "*")
	output, err := bounded(t, installTimeout, exec.Command("javac", "-cp", jars, "-d", classes, filepath.Join("clients", "java", "Lettuce.java")))
	require.NoError(t, err, output)
	return "java", classes + string(os.PathListSeparator) + jars
}

// installed gives the folder that the commands have filled, now or in a former run.
func installed(t *testing.T, language, list, version string, commands func(into string) []*exec.Cmd) string {
	t.Helper()
	content, err := os.ReadFile(list)
	require.NoError(t, err)
	digest := sha256.Sum256(append(content, version...))
	folder := filepath.Join(cacheFolder(), fmt.Sprintf("%s-%x", language, digest[:8]))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	into, err := os.MkdirTemp(filepath.Dir(folder), language+"-unfinished-")
	require.NoError(t, err)
	defer os.RemoveAll(into)
	for _, cmd := range commands(into) {
		requireInstalled(t, cmd)
	}
	if err := os.Rename(into, folder); err != nil {
		_, err = os.Stat(folder) // another test may have been faster
		require.NoError(t, err)
	}
	return folder
}

func cacheFolder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "sluice-test-clients")
}

// requireInstalled runs a command that may need the network, twice if need be.
func requireInstalled(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var output string
	var err error
	for range installAttempts {
		if output, err = bounded(t, installTimeout, cmd); err == nil {
			return
		}
	}
	text := fmt.Sprintf("cannot install what the client needs: %s: %v\n%s", strings.Join(cmd.Args, " "), err, output)
	if os.Getenv("CI") == "true" {
		t.Fatal(text)
	}
	t.Skip(text)
}
