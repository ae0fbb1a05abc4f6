package iptables

import (
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// register is the register that all expressions use.
const register = 1

// Offsets of header fields in bytes (RFC 791, RFC 8200, RFC 9293). UDP has its ports at the same
// offsets as TCP.
const (
	ipv4SourceOffset = 12
	ipv4DestOffset   = 16
	ipv6SourceOffset = 8
	ipv6DestOffset   = 24
	sourcePortOffset = 0
	destPortOffset   = 2
	portLength       = 2
)

// redirToPort is NF_NAT_RANGE_PROTO_SPECIFIED: the register contains a port.
const redirToPort = 2

// expressions returns the rule in nf_tables expressions: loads into the register and comparisons,
// then the verdict. nft compiles the text of Rule.nft to the same expressions. A counter precedes
// the verdict.
func (r Rule) expressions(f Family) []expr.Any {
	var e expressions
	e.addMeta(expr.MetaKeyIIFNAME, false, interfaceName(r.In))
	e.addMeta(expr.MetaKeyOIFNAME, false, interfaceName(r.Out))
	if f == IPv6 {
		e.addAddress(ipv6SourceOffset, r.Src)
		e.addAddress(ipv6DestOffset, r.Dst)
	} else {
		e.addAddress(ipv4SourceOffset, r.Src)
		e.addAddress(ipv4DestOffset, r.Dst)
	}
	e.addTransport(r)
	e.addStates(r.States)
	if r.Mark.Value != 0 {
		e.addMeta(expr.MetaKeyMARK, r.Mark.Not, binaryutil.NativeEndian.PutUint32(r.Mark.Value))
	}
	if r.ConnMark.Value != 0 {
		e.add(&expr.Ct{Key: expr.CtKeyMARK, Register: register})
		e.compare(r.ConnMark.Not, binaryutil.NativeEndian.PutUint32(r.ConnMark.Value))
	}
	for _, o := range r.Owners {
		key := expr.MetaKeySKUID
		if o.By == GID {
			key = expr.MetaKeySKGID
		}
		e.addMeta(key, o.Not, binaryutil.NativeEndian.PutUint32(o.ID))
	}
	// Every rule has a counter, to show which one matched a packet.
	e.add(&expr.Counter{})
	e.addVerdict(r.Then, f)
	return e
}

type expressions []expr.Any

// add appends expressions.
func (e *expressions) add(more ...expr.Any) { *e = append(*e, more...) }

// compare adds a condition that the register equals value, or with not that it differs.
func (e *expressions) compare(not bool, value []byte) {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	e.add(&expr.Cmp{Op: op, Register: register, Data: value})
}

// addMeta adds a condition that packet metadata equal value, or with not that they differ. It does
// nothing if value is nil.
func (e *expressions) addMeta(key expr.MetaKey, not bool, value []byte) {
	if value == nil {
		return
	}
	e.add(&expr.Meta{Key: key, Register: register})
	e.compare(not, value)
}

// addAddress adds a condition on an address in the same way as nft. It compares the leading bytes
// of a prefix that ends at a byte boundary, otherwise the masked address. It does nothing if n has
// no valid prefix or one of length 0, also with n.Not.
func (e *expressions) addAddress(offset uint32, n Net) {
	bits := n.Prefix.Bits()
	if !n.Prefix.IsValid() || bits == 0 {
		return
	}
	length := bits / 8
	if bits%8 != 0 {
		length = n.Prefix.Addr().BitLen() / 8
	}
	e.add(&expr.Payload{
		DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(length),
	})
	if bits%8 != 0 {
		e.add(&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: uint32(length),
			Mask: mask(bits, length), Xor: make([]byte, length),
		})
	}
	e.compare(n.Not, n.Prefix.Addr().AsSlice()[:length])
}

// mask returns length bytes with the first bits set.
func mask(bits, length int) []byte {
	m := make([]byte, length)
	for i := range bits {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

// addTransport adds the conditions on the protocol and the ports. Each destination port is a
// condition of its own; a source port of 0 is none.
func (e *expressions) addTransport(r Rule) {
	switch r.Proto {
	case TCP:
		e.addMeta(expr.MetaKeyL4PROTO, false, []byte{unix.IPPROTO_TCP})
	case UDP:
		e.addMeta(expr.MetaKeyL4PROTO, false, []byte{unix.IPPROTO_UDP})
	}
	if r.SPort != 0 {
		e.addPort(sourcePortOffset, false, SinglePort(r.SPort))
	}
	for _, ports := range r.DPort.List {
		e.addPort(destPortOffset, r.DPort.Not, ports)
	}
}

// addPort adds a condition that the port at an offset of the transport header is in a range, or
// outside of it with not.
func (e *expressions) addPort(offset uint32, not bool, ports PortRange) {
	e.add(&expr.Payload{
		DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: portLength,
	})
	first, last := binaryutil.BigEndian.PutUint16(ports.First), binaryutil.BigEndian.PutUint16(ports.Last)
	switch {
	case ports.First == ports.Last:
		e.compare(not, first)
	case not:
		e.add(&expr.Range{Op: expr.CmpOpNeq, Register: register, FromData: first, ToData: last})
	default: // as nft compiles a range
		e.add(
			&expr.Cmp{Op: expr.CmpOpGte, Register: register, Data: first},
			&expr.Cmp{Op: expr.CmpOpLte, Register: register, Data: last})
	}
}

// addStates adds a condition that the packet's conntrack state is one of states. It does nothing if
// there are none.
func (e *expressions) addStates(states []ConnState) {
	if len(states) == 0 {
		return
	}
	var bits uint32
	for _, s := range states {
		switch s {
		case Invalid:
			bits |= expr.CtStateBitINVALID
		case Established:
			bits |= expr.CtStateBitESTABLISHED
		case Related:
			bits |= expr.CtStateBitRELATED
		}
	}
	zero := make([]byte, 4)
	e.add(
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: zero,
		})
	e.compare(true, zero)
}

// addVerdict adds the verdict of a rule. TProxyTo also sets the mark and accepts. An unknown action
// adds nothing.
func (e *expressions) addVerdict(v Verdict, f Family) {
	switch v.Action {
	case Return:
		e.add(&expr.Verdict{Kind: expr.VerdictReturn})
	case Jump:
		e.add(&expr.Verdict{Kind: expr.VerdictJump, Chain: nftChain(v.Chain)})
	case RedirectTo:
		e.load(binaryutil.BigEndian.PutUint16(v.Port))
		e.add(&expr.Redir{RegisterProtoMin: register, Flags: redirToPort})
	case TProxyTo:
		family := byte(unix.NFPROTO_IPV4)
		if f == IPv6 {
			family = unix.NFPROTO_IPV6
		}
		e.load(binaryutil.BigEndian.PutUint16(v.Port))
		e.add(&expr.TProxy{Family: family, TableFamily: family, RegPort: register})
		e.setMark(v.Mark)
		e.add(&expr.Verdict{Kind: expr.VerdictAccept})
	case Accept:
		e.add(&expr.Verdict{Kind: expr.VerdictAccept})
	case Drop:
		e.add(&expr.Verdict{Kind: expr.VerdictDrop})
	case SetMark:
		e.setMark(v.Mark)
	case SaveMark:
		e.add(
			&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
			&expr.Ct{Key: expr.CtKeyMARK, Register: register, SourceRegister: true})
	case RestoreMark:
		e.add(
			&expr.Ct{Key: expr.CtKeyMARK, Register: register},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: register, SourceRegister: true})
	case SetZone:
		e.load(binaryutil.NativeEndian.PutUint16(v.Zone))
		e.add(&expr.Ct{Key: expr.CtKeyZONE, Register: register, SourceRegister: true})
	}
}

// load adds a load of a value into the register.
func (e *expressions) load(value []byte) { e.add(&expr.Immediate{Register: register, Data: value}) }

// setMark adds a statement that sets the packet's mark.
func (e *expressions) setMark(mark uint32) {
	e.load(binaryutil.NativeEndian.PutUint32(mark))
	e.add(&expr.Meta{Key: expr.MetaKeyMARK, Register: register, SourceRegister: true})
}

// interfaceName returns the value to compare with an interface name: the name padded with NUL. For
// a name that ends in + it returns only the part before it, because nf_tables compares as many
// bytes as the value has. It returns nil for an empty name.
func interfaceName(name string) []byte {
	if name == "" {
		return nil
	}
	if stem, wild := strings.CutSuffix(name, "+"); wild {
		return []byte(stem)
	}
	value := make([]byte, unix.IFNAMSIZ)
	copy(value, name)
	return value
}
