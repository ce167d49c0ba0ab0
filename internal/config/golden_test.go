package config

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestBadFiles loads every testdata/bad/*.yaml and compares what it is told
// with the .txt beside it. Lines "# env: NAME=value" and "# flag: --name=value"
// at the top of a file set variables and flags. UPDATE_GOLDEN=1 writes the .txt
// files anew: read the difference.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			t.Chdir("testdata/bad")
			text := loadBad(t, name)
			golden := strings.TrimSuffix(name, ".yaml") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), text)
			require.NotContains(t, text, "hunter2")
			require.Equal(t, text, loadBad(t, name), "the order is the same every time")
		})
	}
}

func loadBad(t *testing.T, name string) string {
	t.Helper()
	c, err := Load(name, settingsOf(t, name))
	require.Nil(t, c)
	var all *Errors
	require.ErrorAs(t, err, &all)
	require.NotEmpty(t, all.Problems)
	var first Problem
	require.True(t, errors.As(err, &first))
	require.Equal(t, all.Problems[0], first)
	return err.Error() + "\n"
}

// settingsOf sets the variables and gives the flags that the file's comments name.
func settingsOf(t *testing.T, name string) *pflag.FlagSet {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	flags := flagSet()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if setting, ok := strings.CutPrefix(lines.Text(), "# env: "); ok {
			variable, value, _ := strings.Cut(setting, "=")
			t.Setenv(variable, value)
		}
		if flag, ok := strings.CutPrefix(lines.Text(), "# flag: "); ok {
			require.NoError(t, flags.Parse([]string{flag}))
		}
	}
	require.NoError(t, lines.Err())
	return flags
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("sluice.ini", nil, 0o600))
	require.NoError(t, os.Mkdir("folder.yaml", 0o700))
	for path, want := range map[string]string{
		"absent.yaml": "absent.yaml: cannot be read: no such file or directory; give the path of a file that can",
		"sluice.ini":  "sluice.ini: is of an unknown kind; name it .yaml, .toml or .json",
		"folder.yaml": "folder.yaml: cannot be read: it is a folder; give the path of a file that can",
	} {
		_, err := Load(path, nil)
		require.EqualError(t, err, want)
	}
}
