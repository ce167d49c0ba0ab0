package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// clusterKindField is what documents call the kind of a cluster, as kind is the document's own.
const clusterKindField = "cluster_kind"

// document is one entity of a file.
type document struct {
	from   string // the file and line
	kind   manager
	name   string
	entity any // of the kind's type
}

// manager is a kind whose type does not matter: what apply, diff and export need of it.
type manager interface {
	title() api.Kind
	word() string
	// parse makes an entity of a document's fields.
	parse(fields map[string]any) (entity any, name string, err error)
	// existing is all that are registered, by name.
	existing(ctx context.Context, client *api.Client) (map[string]registered, error)
	// text is an entity as a document; edits are made to it before, with their old values or the new ones.
	text(entity any, edits []api.Edit, pick func(api.Edit) any) (string, error)
	planWrite(ctx context.Context, client *api.Client, name string, entity any, version int) (api.Plan, error)
	planDelete(ctx context.Context, client *api.Client, name string, version int) (api.Plan, error)
	write(ctx context.Context, client *api.Client, name string, entity any, o api.WriteOptions) (written any, version int, err error)
	remove(ctx context.Context, client *api.Client, name string, o api.WriteOptions) error
	document(entity any) (*yaml.Node, error)
	secretOf(entity any) string
}

// registered is an entity as it is now.
type registered struct {
	entity any
	meta   api.Meta
}

// managers are the kinds in the order in which they depend on each other.
func (c *cli) managers() []manager {
	return []manager{c.clusterKind(), c.tenantKind(), c.userKind(), c.tokenKind()}
}

func (k *kind[T]) title() api.Kind { return k.kind }
func (k *kind[T]) word() string    { return k.one }

func (k *kind[T]) secretOf(entity any) string {
	x := entity.(T)
	return k.secret(&x)
}

func (k *kind[T]) parse(fields map[string]any) (any, string, error) {
	delete(fields, "meta")
	if k.kind == api.KindCluster {
		if value, given := fields[clusterKindField]; given {
			fields["kind"] = value
			delete(fields, clusterKindField)
		} else {
			fields["kind"] = "standalone"
		}
	}
	entity, err := k.decode(fields)
	if err != nil {
		return nil, "", err
	}
	name := k.name(&entity)
	if name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return nil, "", errors.New("it needs a name" + map[bool]string{true: " and a tenant"}[k.kind == api.KindUser])
	}
	return entity, name, nil
}

func (k *kind[T]) existing(ctx context.Context, client *api.Client) (map[string]registered, error) {
	all := make(map[string]registered)
	for entity, err := range k.all(ctx, client, "") {
		if err != nil {
			return nil, err
		}
		r := registered{entity: entity}
		if m := k.meta(&entity); m != nil {
			r.meta = *m
		}
		all[k.name(&entity)] = r
	}
	return all, nil
}

func (k *kind[T]) text(entity any, edits []api.Edit, pick func(api.Edit) any) (string, error) {
	b, err := json.Marshal(entity)
	if err != nil {
		return "", fmt.Errorf("cannot print a %s: %w", k.one, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return "", fmt.Errorf("cannot print a %s: %w", k.one, err)
	}
	for _, e := range edits {
		put(fields, e.Field, pick(e))
	}
	shown, err := k.decode(withoutNulls(fields))
	if err != nil {
		return "", fmt.Errorf("cannot understand a difference of a newer server: %w", err)
	}
	node, err := k.document(shown)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = writeYAML(&text, node)
	return text.String(), err
}

// document is an entity as a document of a file, without what is the server's to say.
func (k *kind[T]) document(entity any) (*yaml.Node, error) {
	node, err := yamlOf(entity)
	if err != nil {
		return nil, err
	}
	drop(node, "meta")
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch key, value := node.Content[i], node.Content[i+1]; {
		case key.Value == "kind" && k.kind == api.KindCluster:
			key.Value = clusterKindField
		case key.Value == "auth" && value.Kind == yaml.MappingNode:
			drop(value, "has_password")
			if len(value.Content) == 0 { // a password and no name
				value.Style = yaml.FlowStyle
			}
		}
	}
	node.Content = slices.Concat([]*yaml.Node{
		{Kind: yaml.ScalarNode, Value: "kind"}, {Kind: yaml.ScalarNode, Value: string(k.kind)},
	}, node.Content)
	return node, nil
}

func drop(mapping *yaml.Node, name string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

func (k *kind[T]) planWrite(ctx context.Context, client *api.Client, name string, entity any, version int) (api.Plan, error) {
	r, id := k.at(client, name)
	if version == 0 {
		return r.Plan().Create(ctx, entity.(T), api.WriteOptions{})
	}
	return r.Plan().Replace(ctx, id, entity.(T), api.WriteOptions{Version: version})
}

func (k *kind[T]) planDelete(ctx context.Context, client *api.Client, name string, version int) (api.Plan, error) {
	r, id := k.at(client, name)
	return r.Plan().Delete(ctx, id, api.WriteOptions{Version: version})
}

func (k *kind[T]) write(ctx context.Context, client *api.Client, name string, entity any, o api.WriteOptions) (any, int, error) {
	r, id := k.at(client, name)
	write := func() (T, error) { return r.Create(ctx, entity.(T), o) }
	if o.Version != 0 {
		write = func() (T, error) { return r.Replace(ctx, id, entity.(T), o) }
	}
	written, err := write()
	if err != nil {
		return nil, 0, err
	}
	version := 0
	if m := k.meta(&written); m != nil {
		version = m.Version
	}
	return written, version, nil
}

func (k *kind[T]) remove(ctx context.Context, client *api.Client, name string, o api.WriteOptions) error {
	r, id := k.at(client, name)
	return r.Delete(ctx, id, o)
}

// readDocuments reads all documents of files and folders; "-" is standard input.
func (c *cli) readDocuments(paths []string) (all []document, err error) {
	var wrong []error
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			documents, err := c.readFile(file)
			all, wrong = append(all, documents...), append(wrong, err)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	seen := make(map[string]string)
	for _, d := range all {
		key := string(d.kind.title()) + " " + d.name
		if before, twice := seen[key]; twice {
			return nil, fmt.Errorf("%s: %s is in %s too", d.from, key, before)
		}
		seen[key] = d.from
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no document in %s", strings.Join(paths, ", "))
	}
	return all, nil
}

// filesOf is a file, or the files of a folder and of those in it.
func filesOf(path string) (files []string, err error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func (c *cli) readFile(path string) (all []document, err error) {
	var b []byte
	name := path
	if path == "-" {
		name = "standard input"
		b, err = io.ReadAll(c.env.In)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return c.parseDocuments(name, b)
}

// parseDocuments reads the documents of a text.
func (c *cli) parseDocuments(name string, b []byte) (all []document, err error) {
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		b = bytes.ReplaceAll(b, []byte("\t"), []byte(" ")) // JSON may be indented with tabs, which YAML forbids; a string has \t
	}
	var wrong []error
	for decoder := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all, errors.Join(wrong...)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		for _, entity := range entitiesOf(&node) {
			d, err := c.documentOf(entity)
			d.from = fmt.Sprintf("%s:%d", name, entity.Line)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", d.from, err))
				continue
			}
			all = append(all, d)
		}
	}
}

// entitiesOf are the entities of a document, which may be a list of them, or empty.
func entitiesOf(node *yaml.Node) []*yaml.Node {
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	switch {
	case node.Kind == yaml.SequenceNode:
		return node.Content
	case node.Tag == "!!null":
		return nil
	}
	return []*yaml.Node{node}
}

func (c *cli) documentOf(node *yaml.Node) (d document, err error) {
	var fields map[string]any
	if err := node.Decode(&fields); err != nil {
		return d, errors.New("a document is an object with the field kind: Cluster, Tenant, User or Token")
	}
	title, _ := fields["kind"].(string)
	delete(fields, "kind")
	for _, m := range c.managers() {
		if strings.EqualFold(string(m.title()), title) {
			d.kind = m
			if d.entity, d.name, err = m.parse(fields); err != nil {
				return d, fmt.Errorf("%s: %w", m.title(), err)
			}
			return d, nil
		}
	}
	_, tenants := fields["tenants"]
	if _, clusters := fields["clusters"]; title == "" && (tenants || clusters) {
		return d, hinted("sluiced serve --config FILE; what documents are: proxyctl apply --help", "this is a configuration of sluiced, not a document: the field kind is missing")
	}
	if title == "" {
		return d, errors.New("the field kind is missing: Cluster, Tenant, User or Token")
	}
	hint := ""
	if title == "standalone" || title == "cluster" {
		hint = "; the kind of a cluster is in the field " + clusterKindField
	}
	if hint == "" {
		hint = isIt(title, []string{"Cluster", "Tenant", "User", "Token"})
	}
	return d, fmt.Errorf("kind %q: must be Cluster, Tenant, User or Token%s", title, hint)
}
