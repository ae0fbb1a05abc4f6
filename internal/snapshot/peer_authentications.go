package snapshot

import (
	"slices"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Peers identifies the PeerAuthentications that apply to a workload: the objects of the root
// namespace and of the workload's namespace without a selector, and the object that selects the
// workload. A missing one is the zero Key. Each overrides those before it.
type Peers struct {
	Mesh, Namespace, Workload config.Key
}

// Has reports whether the object k is one of the PeerAuthentications that p identifies.
func (p Peers) Has(k config.Key) bool {
	return k.Kind == api.PeerAuthentication && (k == p.Mesh || k == p.Namespace || k == p.Workload)
}

// PeerMode is the mTLS mode of a workload for inbound connections: PERMISSIVE, STRICT or DISABLE.
type PeerMode = security.PeerAuthentication_MutualTLS_Mode

// PeerModes contains the mTLS modes of a workload's ports.
type PeerModes struct {
	// Mode applies to all ports that are not in Ports.
	Mode PeerMode
	// Ports is keyed by the workload's port numbers.
	Ports map[uint32]PeerMode
	// From are the objects that define the modes.
	From []config.Key
}

// At returns the mode of a port of the workload: its own in m.Ports, or else m.Mode.
func (m PeerModes) At(port uint32) PeerMode {
	if mode, ok := m.Ports[port]; ok {
		return mode
	}
	return m.Mode
}

// Peers returns the keys of the PeerAuthentications that apply to a workload. Of several for one
// position, the oldest applies. An object in the root namespace with a selector is ignored, as in
// istiod.
func (s *Snapshot) Peers(namespace string, labels map[string]string) Peers {
	return s.peerAuthentications.keysFor(namespace, labels)
}

// PeerModes returns the modes that the objects of p define together. Objects that no longer exist
// are ignored.
func (s *Snapshot) PeerModes(p Peers) PeerModes {
	var rows [3]*config.Config
	for i, k := range [...]config.Key{p.Mesh, p.Namespace, p.Workload} {
		if k != (config.Key{}) {
			rows[i] = s.Config(k)
		}
	}
	return mergePeerModes(rows)
}

// mergePeerModes merges the objects of the mesh, the namespace and the workload, in this order. Nil
// objects are ignored, and a later one overrides unless its mode is UNSET. From has the keys of all
// objects that are not nil. Port modes are only read from the workload's object, and ignored if
// UNSET. The default mode is PERMISSIVE.
func mergePeerModes(rows [3]*config.Config) PeerModes {
	m := PeerModes{Mode: security.PeerAuthentication_MutualTLS_PERMISSIVE}
	for _, c := range rows {
		if c == nil {
			continue
		}
		m.From = append(m.From, c.Key)
		mode := config.Spec[*security.PeerAuthentication](c).GetMtls().GetMode()
		if mode != security.PeerAuthentication_MutualTLS_UNSET {
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

// peerAuthentications is the index of PeerAuthentications by namespace. A nil index is empty.
type peerAuthentications struct {
	root        string
	mesh        *config.Config
	byNamespace map[string]namespacePeers
}

// namespacePeers contains the objects of one namespace: the one without a selector, or nil, and
// those with one, oldest first.
type namespacePeers struct {
	wide      *config.Config
	selecting []*config.Config
	// disables is set if one of them disables mutual TLS somewhere.
	disables bool
}

// newPeerAuthentications returns an index of all PeerAuthentications, or nil for an empty list. Of
// several without a selector in one namespace the oldest is used; selecting ones are sorted by age.
// The oldest object in the root namespace without a selector applies to the whole mesh. Objects in
// the root namespace with a selector have no effect.
func newPeerAuthentications(list []*config.Config, root string) *peerAuthentications {
	if len(list) == 0 {
		return nil
	}
	p := &peerAuthentications{root: root, byNamespace: map[string]namespacePeers{}}
	for _, c := range slices.SortedFunc(slices.Values(list), config.CompareAge) {
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
		of.disables = of.disables || disablesTLS(spec)
		p.byNamespace[c.Namespace] = of
	}
	return p
}

// disablesTLS reports whether a PeerAuthentication has mode DISABLE for the workload or any port.
func disablesTLS(spec *security.PeerAuthentication) bool {
	const off = security.PeerAuthentication_MutualTLS_DISABLE
	for _, tls := range spec.GetPortLevelMtls() {
		if tls.GetMode() == off {
			return true
		}
	}
	return spec.GetMtls().GetMode() == off
}

// rowsFor returns the objects that apply to a workload, in the order of Peers: mesh, namespace,
// workload. Of several that select it, the oldest applies. A position without an object is nil. p
// may be nil.
func (p *peerAuthentications) rowsFor(namespace string, labels map[string]string) [3]*config.Config {
	if p == nil {
		return [3]*config.Config{}
	}
	of := p.byNamespace[namespace]
	rows := [3]*config.Config{p.mesh, of.wide}
	for _, c := range of.selecting {
		if SelectorMatches(config.Spec[*security.PeerAuthentication](c).GetSelector().GetMatchLabels(), labels) {
			rows[2] = c
			break
		}
	}
	return rows
}

// keysFor returns the keys of the objects that apply to a workload. Missing ones stay zero.
func (p *peerAuthentications) keysFor(namespace string, labels map[string]string) Peers {
	var k Peers
	for i, c := range p.rowsFor(namespace, labels) {
		if c != nil {
			*[...]*config.Key{&k.Mesh, &k.Namespace, &k.Workload}[i] = c.Key
		}
	}
	return k
}

// mayDisableTLS reports whether a PeerAuthentication may disable mutual TLS for some workload or
// port of a namespace. p may be nil.
func (p *peerAuthentications) mayDisableTLS(namespace string) bool {
	if p == nil {
		return false
	}
	return p.mesh != nil && disablesTLS(config.Spec[*security.PeerAuthentication](p.mesh)) ||
		p.byNamespace[namespace].disables
}

// markPlaintext replaces each endpoint whose port has mode DISABLE by a copy with TLS cleared and
// TLSDisabled set. Callers choose TLS by these fields. It modifies list and returns it. Endpoints
// without TLS stay unchanged.
func (p *peerAuthentications) markPlaintext(list []*mesh.Endpoint) []*mesh.Endpoint {
	for i, e := range list {
		if !e.TLS || !p.mayDisableTLS(e.Namespace) {
			continue
		}
		modes := mergePeerModes(p.rowsFor(e.Namespace, e.Labels))
		if modes.At(e.Port) == security.PeerAuthentication_MutualTLS_DISABLE {
			plain := *e
			plain.TLS, plain.TLSDisabled = false, true
			list[i] = &plain
		}
	}
	return list
}

// joinPeers updates the index of PeerAuthentications, before endpoints are merged; it does nothing
// unless some changed or delta.All is set. It adds to dirtyEndpoints the services whose endpoints
// may change between TLS and plain text.
func (e *edit) joinPeers() {
	changed := e.changedObjects(api.PeerAuthentication)
	if len(changed) == 0 && !e.delta.All {
		return
	}
	old := e.next.peerAuthentications
	list := slices.DeleteFunc(
		slices.Clone(e.next.Configs(api.PeerAuthentication)),
		func(c *config.Config) bool { return changed[c.Key] },
	)
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
		if (everywhere || namespaces[svc.Namespace]) &&
			(old.mayDisableTLS(svc.Namespace) || now.mayDisableTLS(svc.Namespace)) {
			e.dirtyEndpoints[svc.ServiceKey] = struct{}{}
		}
	}
}
