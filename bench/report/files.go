package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes the report into the folder as JSON, Markdown and SVG and returns the path of the Markdown file.
func (r *Report) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the folder for reports: %w", err)
	}
	name := r.Date.UTC().Format("20060102-150405") + "-" + r.Commit
	base := filepath.Join(dir, name)
	err := errors.Join(
		save(base+".json", r.writeJSON),
		save(base+".svg", r.WriteSVG),
		save(base+".md", func(w io.Writer) error { return r.WriteMarkdown(w, name+".svg") }),
	)
	if err != nil {
		return "", fmt.Errorf("cannot save the report: %w", err)
	}
	return base + ".md", nil
}

func (r *Report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func save(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
