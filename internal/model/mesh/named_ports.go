package mesh

import "github.com/meshpilot/meshpilot/internal/model/contenthash"

// NamedPort is a port with a name.
type NamedPort struct {
	Name   string
	Number uint32
}

// NamedPorts are ports by name. There is a list for each pod, which takes a fraction of the memory
// of a map.
type NamedPorts []NamedPort

// Number returns the number of the first port with the name, or 0 if there is none.
func (p NamedPorts) Number(name string) uint32 {
	for _, port := range p {
		if port.Name == name {
			return port.Number
		}
	}
	return 0
}

// appendNamedPorts appends the ports in their order.
func appendNamedPorts(b *contenthash.Buffer, ports NamedPorts) {
	b.Uint32(uint32(len(ports)))
	for _, p := range ports {
		b.Text(p.Name)
		b.Uint32(p.Number)
	}
}
