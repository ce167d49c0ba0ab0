// Command gen writes the command table and its documentation from a running Redis: it starts the redis-server of PATH on
// a free loopback port, reads COMMAND and COMMAND DOCS, applies the overlay and writes table_gen.go and docs_gen.json.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	folder := flag.String("out", ".", "folder to write table_gen.go and docs_gen.json to")
	flag.Parse()
	if err := run(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates both files and writes them when all of it went well.
func run(folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := generate(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "table_gen.go"), out.table, 0o644); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "docs_gen.json"), out.docs, 0o644); err != nil {
		return fmt.Errorf("cannot write the documentation: %w", err)
	}
	return nil
}

// output is the content of the generated files.
type output struct {
	version string // of the server
	table   []byte
	docs    []byte
}

// generate reads a server of its own and renders what it says.
func generate(ctx context.Context) (*output, error) {
	server, err := startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	version, rows, err := readCommands(ctx, server.client)
	if err != nil {
		return nil, err
	}
	rows, err = applyOverlay(rows)
	if err != nil {
		return nil, err
	}
	table, err := renderTable(version, rows)
	if err != nil {
		return nil, err
	}
	docs, err := renderDocs(rows)
	if err != nil {
		return nil, err
	}
	return &output{version: version, table: table, docs: docs}, nil
}
