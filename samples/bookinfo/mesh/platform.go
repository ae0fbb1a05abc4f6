package mesh

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// platform is what the manifests say.
type platform struct {
	pods     []*corev1.Pod
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
	// registered selects the pods that are registered in Consul; nil selects all.
	registered func(*corev1.Pod) bool
}

// Pods returns the pods of the manifests in a directory.
func Pods(dir fs.FS) ([]*corev1.Pod, error) {
	p, err := readPlatform(dir)
	if err != nil {
		return nil, err
	}
	return p.pods, nil
}

// readPlatform reads every .yaml file of a directory, in order of name. Kinds it has no use for are left alone.
func readPlatform(dir fs.FS) (*platform, error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	slices.Sort(names)
	p := &platform{}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		docs, err := splitDocuments(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		for i, doc := range docs {
			if err := p.add(doc); err != nil {
				return nil, fmt.Errorf("reading %s, document %d: %w", name, i+1, err)
			}
		}
	}
	if len(p.pods) == 0 {
		return nil, errors.New("the manifests hold no pod")
	}
	return p, nil
}

func (p *platform) add(doc []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return err
	}
	switch meta.Kind {
	case "Pod":
		pod := &corev1.Pod{}
		p.pods = append(p.pods, pod)
		return yaml.UnmarshalStrict(doc, pod)
	case "Service":
		service := &corev1.Service{}
		p.services = append(p.services, service)
		return yaml.UnmarshalStrict(doc, service)
	case "EndpointSlice":
		slice := &discoveryv1.EndpointSlice{}
		p.slices = append(p.slices, slice)
		return yaml.UnmarshalStrict(doc, slice)
	default:
		return nil
	}
}

// splitDocuments splits a YAML file, leaving out documents that hold nothing.
func splitDocuments(text []byte) ([][]byte, error) {
	reader := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var docs [][]byte
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(doc, &content); err != nil {
			return nil, err
		}
		if content != nil {
			docs = append(docs, doc)
		}
	}
}

// hosts are the names of all services as a pod of a namespace knows them: the service's name alone
// in its own namespace, and every longer form.
func (p *platform) hosts(
	namespace, domain string,
	address func(*corev1.Service) (netip.Addr, error),
) (map[string]netip.Addr, error) {
	hosts := map[string]netip.Addr{}
	for _, s := range p.services {
		addr, err := address(s)
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", s.Namespace, s.Name, err)
		}
		qualified := s.Name + "." + s.Namespace
		for _, name := range []string{qualified, qualified + ".svc", qualified + ".svc." + domain} {
			hosts[name] = addr
		}
		if s.Namespace == namespace {
			hosts[s.Name] = addr
		}
	}
	return hosts, nil
}

// clusterIP is the address that a service has in the mesh.
func clusterIP(s *corev1.Service) (netip.Addr, error) { return netip.ParseAddr(s.Spec.ClusterIP) }

// firstEndpoint is the address to reach a service at without a mesh.
func (p *platform) firstEndpoint(s *corev1.Service) (netip.Addr, error) {
	for _, slice := range p.slices {
		if slice.Namespace != s.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 {
				return netip.ParseAddr(e.Addresses[0])
			}
		}
	}
	return netip.Addr{}, errors.New("it has no endpoint")
}
