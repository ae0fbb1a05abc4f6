package snapshot

import (
	"slices"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Peers names the PeerAuthentications that hold for a workload, the zero Key where there is none: the root namespace's and the
// workload's namespace's for everybody, and the one that selects it. Each is more particular than those before it.
type Peers struct {
	Mesh, Namespace, Workload config.Key
}

// Has says whether the object is one of them.
func (p Peers) Has(k config.Key) bool {
	return k.Kind == api.PeerAuthentication && (k == p.Mesh || k == p.Namespace || k == p.Workload)
}

// PeerMode is what a workload takes from its peers: PERMISSIVE, STRICT or DISABLE.
type PeerMode = security.PeerAuthentication_MutualTLS_Mode

// PeerModes are the modes of a workload's ports.
type PeerModes struct {
	// Mode is that of all ports but those in Ports.
	Mode PeerMode
	// Ports are by the workload's own port numbers.
	Ports map[uint32]PeerMode
	// From are the objects that say so.
	From []config.Key
}

// At gives the mode of a port of the workload.
func (m PeerModes) At(port uint32) PeerMode {
	if mode, ok := m.Ports[port]; ok {
		return mode
	}
	return m.Mode
}

// Peers gives the names of the PeerAuthentications that hold for a workload. Of several that would stand in one place the oldest
// does. One in the root namespace with a selector selects nothing, as in istiod.
func (s *Snapshot) Peers(namespace string, labels map[string]string) Peers {
	return s.peerAuthentications.of(namespace, labels)
}

// PeerModes gives what the named PeerAuthentications say together.
func (s *Snapshot) PeerModes(p Peers) PeerModes {
	var rows [3]*config.Config
	for i, k := range [...]config.Key{p.Mesh, p.Namespace, p.Workload} {
		if k != (config.Key{}) {
			rows[i] = s.Config(k)
		}
	}
	return composedPeers(rows)
}

// composedPeers joins what the mesh's, the namespace's and the workload's objects say. Only the last of them has ports.
func composedPeers(rows [3]*config.Config) PeerModes {
	m := PeerModes{Mode: security.PeerAuthentication_MutualTLS_PERMISSIVE}
	for _, c := range rows {
		if c == nil {
			continue
		}
		m.From = append(m.From, c.Key)
		if mode := config.Spec[*security.PeerAuthentication](c).GetMtls().GetMode(); mode != security.PeerAuthentication_MutualTLS_UNSET {
			m.Mode = mode
		}
	}
	if c := rows[2]; c != nil {
		for port, tls := range config.Spec[*security.PeerAuthentication](c).GetPortLevelMtls() {
			if tls.GetMode() == security.PeerAuthentication_MutualTLS_UNSET {
				continue
			}
			if m.Ports == nil {
				m.Ports = map[uint32]PeerMode{}
			}
			m.Ports[port] = tls.GetMode()
		}
	}
	return m
}

// peerAuthentications is the index of PeerAuthentications by whom they hold for. nil is an index of none.
type peerAuthentications struct {
	root        string
	mesh        *config.Config
	byNamespace map[string]namespacePeers
}

// namespacePeers are the objects of one namespace: the one for everybody, nil if there is none, and those with a selector, the
// oldest first.
type namespacePeers struct {
	wide      *config.Config
	selecting []*config.Config
	// disables says that one of them switches mutual TLS off somewhere.
	disables bool
}

// newPeerAuthentications makes the index of all objects of the kind.
func newPeerAuthentications(list []*config.Config, root string) *peerAuthentications {
	if len(list) == 0 {
		return nil
	}
	p := &peerAuthentications{root: root, byNamespace: map[string]namespacePeers{}}
	for _, c := range slices.SortedFunc(slices.Values(list), config.Older) {
		spec := config.Spec[*security.PeerAuthentication](c)
		selects := len(spec.GetSelector().GetMatchLabels()) > 0
		of := p.byNamespace[c.Namespace]
		switch {
		case c.Namespace == root && selects:
			continue
		case c.Namespace == root:
			if p.mesh == nil {
				p.mesh = c
			}
			continue
		case selects:
			of.selecting = append(of.selecting, c)
		case of.wide == nil:
			of.wide = c
		}
		of.disables = of.disables || switchesOff(spec)
		p.byNamespace[c.Namespace] = of
	}
	return p
}

func switchesOff(spec *security.PeerAuthentication) bool {
	const off = security.PeerAuthentication_MutualTLS_DISABLE
	for _, tls := range spec.GetPortLevelMtls() {
		if tls.GetMode() == off {
			return true
		}
	}
	return spec.GetMtls().GetMode() == off
}

// rows gives the objects that hold for a workload, those of Peers.
func (p *peerAuthentications) rows(namespace string, labels map[string]string) [3]*config.Config {
	if p == nil {
		return [3]*config.Config{}
	}
	of := p.byNamespace[namespace]
	rows := [3]*config.Config{p.mesh, of.wide}
	for _, c := range of.selecting {
		if Selects(config.Spec[*security.PeerAuthentication](c).GetSelector().GetMatchLabels(), labels) {
			rows[2] = c
			break
		}
	}
	return rows
}

func (p *peerAuthentications) of(namespace string, labels map[string]string) Peers {
	var k Peers
	for i, c := range p.rows(namespace, labels) {
		if c != nil {
			*[...]*config.Key{&k.Mesh, &k.Namespace, &k.Workload}[i] = c.Key
		}
	}
	return k
}

// disables says whether any workload of a namespace may have mutual TLS switched off.
func (p *peerAuthentications) disables(namespace string) bool {
	if p == nil {
		return false
	}
	return p.mesh != nil && switchesOff(config.Spec[*security.PeerAuthentication](p.mesh)) || p.byNamespace[namespace].disables
}

// open gives the endpoints with those that have mutual TLS switched off marked so: callers know from the endpoint how to call it.
func (p *peerAuthentications) open(list []*mesh.Endpoint) []*mesh.Endpoint {
	for i, e := range list {
		if !e.TLS || !p.disables(e.Namespace) {
			continue
		}
		if composedPeers(p.rows(e.Namespace, e.Labels)).At(e.Port) == security.PeerAuthentication_MutualTLS_DISABLE {
			plain := *e
			plain.TLS, plain.TLSDisabled = false, true
			list[i] = &plain
		}
	}
	return list
}

// joinPeers brings the index up to date, before endpoints are joined, and has those joined again whose callers may have to call
// them in another way.
func (e *edit) joinPeers() {
	changed := e.changedOf(api.PeerAuthentication)
	if len(changed) == 0 && !e.delta.All {
		return
	}
	old := e.next.peerAuthentications
	list := slices.DeleteFunc(slices.Clone(e.next.Configs(api.PeerAuthentication)), func(c *config.Config) bool { return changed[c.Key] })
	for k := range changed {
		if c := e.configs.Get(k); c != nil {
			list = append(list, c)
		}
	}
	now := newPeerAuthentications(list, e.next.Settings.RootNamespace)
	e.next.peerAuthentications = now
	namespaces, everywhere := map[string]bool{}, e.delta.All
	for k := range changed {
		namespaces[k.Namespace] = true
		everywhere = everywhere || k.Namespace == e.next.Settings.RootNamespace
	}
	for _, svc := range e.next.serviceList {
		if (everywhere || namespaces[svc.Namespace]) && (old.disables(svc.Namespace) || now.disables(svc.Namespace)) {
			e.rejoin[svc.ServiceKey] = struct{}{}
		}
	}
}
