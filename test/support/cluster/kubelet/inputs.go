package kubelet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// Inputs are what a container is started with.
type Inputs struct {
	// Environ are its variables, sorted. Args are its arguments with references expanded.
	Environ, Args []string
	// Files are the files of its downward API volumes, by path.
	Files map[string]string
}

// InputsOf returns the inputs of a container, or init container, of a Pod that has this address on
// a node with this address. It needs no API server: a variable or volume with other sources than
// the Pod itself is an error if it is not optional, except that such volumes have no files.
func InputsOf(object *corev1.Pod, name string, address, node netip.Addr) (Inputs, error) {
	all := slices.Concat(object.Spec.InitContainers, object.Spec.Containers)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return Inputs{}, fmt.Errorf("the Pod has no container %q", name)
	}
	p := &pod{
		k: &kubelet{Options: Options{
			Node: "node-1", NodeIPs: []netip.Addr{node}, APIService: netip.AddrPortFrom(node, 443),
		}},
		namespace: object.Namespace, name: object.Name, object: object,
		network: &podNetwork{addresses: []netip.Addr{address}},
	}
	c := &container{pod: p, spec: &all[i]}
	env, err := c.buildEnvironment(context.Background(), object, &image.Image{})
	if err != nil {
		return Inputs{}, err
	}
	in := Inputs{Environ: env.toList(), Files: map[string]string{}}
	slices.Sort(in.Environ)
	for _, arg := range all[i].Args {
		in.Args = append(in.Args, env.expandReferences(arg))
	}
	for _, m := range all[i].VolumeMounts {
		found, err := p.downwardFiles(object, m.Name)
		if err != nil {
			return Inputs{}, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		for _, file := range slices.Sorted(maps.Keys(found)) {
			in.Files[path.Join(m.MountPath, file)] = found[file].text
		}
	}
	return in, nil
}

// downwardFiles returns the files of a volume of the Pod, none if it is no downward API volume.
func (p *pod) downwardFiles(object *corev1.Pod, volume string) (files, error) {
	out := files{}
	for _, v := range object.Spec.Volumes {
		if v.Name == volume && v.DownwardAPI != nil {
			return out, p.addFields(out, object, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
		}
	}
	return out, nil
}
