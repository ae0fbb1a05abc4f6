package table

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// Table contains all topics, in one mesh.
type Table struct {
	Topics  []*Topic
	Callers []*Caller
	// MeshConfig is the mesh's, and Common the objects that belong to no topic.
	MeshConfig, Common []byte
	// Instances are the addresses of backends, by name: "reviews-v1-0".
	Instances map[string]netip.Addr
	// Hosts are the addresses of names, as DNS would resolve them.
	Hosts map[string]netip.Addr
}

// Topic is one file.
type Topic struct {
	Name string
	// Shows is the text before the first section.
	Shows    string
	Services []*Service
	// Config is the objects as users write them.
	Config []byte
	Cases  []*Case
}

// Caller is a pod with a sidecar. A serving workload has a backend of its own.
type Caller struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Address   netip.Addr        `json:"address"`
	Labels    map[string]string `json:"labels"`
	// Serves are the ports of its own application.
	Serves []uint16 `json:"serves"`
	// Bare pods have no sidecar, a Gateway has a proxy of its own.
	Bare    bool `json:"bare"`
	Gateway bool `json:"gateway"`
}

// Read reads the topics of a directory, and their shared objects from its subdirectory mesh.
func Read(dir string) (*Table, error) {
	t := &Table{Instances: map[string]netip.Addr{}, Hosts: map[string]netip.Addr{}}
	if err := t.readMesh(filepath.Join(dir, "mesh")); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("topics in %s: found %d, error %w", dir, len(paths), err)
	}
	slices.Sort(paths)
	addresses := newAddresses()
	for _, path := range paths {
		topic, err := t.readTopic(path, addresses)
		if err != nil {
			return nil, fmt.Errorf("reading topic %s: %w", path, err)
		}
		t.Topics = append(t.Topics, topic)
	}
	return t, nil
}

func (t *Table) readMesh(dir string) (err error) {
	if t.MeshConfig, err = os.ReadFile(filepath.Join(dir, "mesh.yaml")); err != nil {
		return err
	}
	if t.Common, err = os.ReadFile(filepath.Join(dir, "common.yaml")); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "callers.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, &t.Callers); err != nil {
		return fmt.Errorf("reading callers: %w", err)
	}
	for _, c := range t.Callers {
		if len(c.Serves) > 0 {
			t.Instances[c.Name] = c.Address
		}
	}
	return nil
}

func (t *Table) readTopic(path string, addresses *addresses) (*Topic, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	topic := &Topic{
		Name:  strings.TrimSuffix(filepath.Base(path), ".txtar"),
		Shows: strings.TrimSpace(string(archive.Comment)),
	}
	if topic.Shows == "" {
		return nil, fmt.Errorf("no description before the first section")
	}
	instances, hosts := map[string]netip.Addr{}, map[string]netip.Addr{}
	for _, f := range archive.Files {
		var into any
		switch f.Name {
		case "services.yaml":
			into = &topic.Services
		case "instances.yaml":
			into = &instances
		case "hosts.yaml":
			into = &hosts
		case "cases.yaml":
			into = &topic.Cases
		case "config.yaml":
			topic.Config = f.Data
			continue
		default:
			return nil, fmt.Errorf("section %q means nothing", f.Name)
		}
		if err := yaml.UnmarshalStrict(f.Data, into); err != nil {
			return nil, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}
	for name, a := range instances {
		if err := t.claimAddress(t.Instances, name, a); err != nil {
			return nil, err
		}
	}
	for name, a := range hosts {
		if err := t.claimAddress(t.Hosts, name, a); err != nil {
			return nil, err
		}
	}
	return topic, t.setTopicDefaults(topic, addresses)
}

func (t *Table) claimAddress(in map[string]netip.Addr, name string, a netip.Addr) error {
	if old, there := in[name]; there && old != a {
		return fmt.Errorf("%s is %s and %s", name, old, a)
	}
	in[name] = a
	return nil
}

// setTopicDefaults sets the defaults of omitted fields.
func (t *Table) setTopicDefaults(topic *Topic, addresses *addresses) error {
	for _, s := range topic.Services {
		s.setDefaults(addresses)
		for name, a := range s.instances {
			if err := t.claimAddress(t.Instances, name, a); err != nil {
				return err
			}
		}
		for _, name := range s.fullNames() {
			if s.ClusterIP.IsValid() {
				if err := t.claimAddress(t.Hosts, name, s.ClusterIP); err != nil {
					return err
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range topic.Cases {
		c.Topic = topic
		if err := c.setDefaults(); err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
		if seen[c.Name] || c.Name == "" {
			return fmt.Errorf("case %q: cases have names, each another", c.Name)
		}
		seen[c.Name] = true
		if t.Caller(c.From) == nil || c.Into != "" && t.Caller(c.Into) == nil {
			return fmt.Errorf("case %q: no caller %q, or no caller %q", c.Name, c.From, c.Into)
		}
	}
	return nil
}

// Caller returns the caller with the name, or nil if it does not exist.
func (t *Table) Caller(name string) *Caller {
	for _, c := range t.Callers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Instance returns the name of the instance at an address, or the address if no instance has it.
func (t *Table) Instance(address string) string {
	host := address
	if at, err := netip.ParseAddrPort(address); err == nil {
		host = at.Addr().Unmap().String()
	}
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		if a, ok := t.Hosts[address[:i]]; ok { // a name that the proxy resolves
			host = a.String()
		}
	}
	for name, a := range t.Instances {
		if a.String() == host {
			return name
		}
	}
	return address
}

// Objects returns all objects as one YAML text: the mesh's objects, and then topic by topic.
func (t *Table) Objects() []byte {
	var docs []string
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			docs = append(docs, strings.TrimSpace(text)+"\n")
		}
	}
	add(string(t.Common))
	for _, c := range t.Callers {
		add(c.renderManifest())
	}
	for _, topic := range t.Topics {
		for _, s := range topic.Services {
			add(s.renderManifest())
		}
		add(string(topic.Config))
	}
	return []byte(strings.Join(docs, "---\n"))
}

// Resolve returns the address to which a caller resolves a host: a literal one, or a name as its
// search domains complete it.
func (t *Table) Resolve(host, namespace string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return a, nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	names := []string{
		host,
		host + "." + namespace + ".svc.cluster.local",
		host + ".svc.cluster.local",
		host + ".cluster.local",
	}
	for _, name := range names {
		if a, ok := t.Hosts[name]; ok {
			return a, nil
		}
	}
	if a, ok := t.Instances[host]; ok {
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("unknown host %s", host)
}
