package hostile

import (
	"math/rand/v2"
)

// element is a DER element: a tag with either children or content.
type element struct {
	tag      byte
	children []*element // of constructed tags
	content  []byte     // of others
	// length, if not nil, is written in place of the real one.
	length []byte
}

const (
	constructed  = 0x20
	tagInteger   = 0x02
	tagBitString = 0x03
	tagOctets    = 0x04
	tagNull      = 0x05
	tagOID       = 0x06
	tagSequence  = 0x30
	tagSet       = 0x31
)

// parseDER reads elements until the end of data; ok is false if data is not DER.
func parseDER(data []byte) (list []*element, ok bool) {
	for len(data) > 0 {
		e := &element{tag: data[0]}
		content, rest, good := contentOf(data)
		if !good {
			return nil, false
		}
		if e.tag&constructed != 0 {
			if e.children, good = parseDER(content); !good {
				return nil, false
			}
		} else {
			e.content = content
		}
		list, data = append(list, e), rest
	}
	return list, true
}

// contentOf splits data behind its first element.
func contentOf(data []byte) (content, rest []byte, ok bool) {
	if len(data) < 2 {
		return nil, nil, false
	}
	n, at := int(data[1]), 2
	if n >= 0x80 {
		size := n & 0x7f
		if size == 0 || size > 3 || len(data) < 2+size {
			return nil, nil, false
		}
		n = 0
		for _, b := range data[2 : 2+size] {
			n = n<<8 | int(b)
		}
		at += size
	}
	if len(data) < at+n {
		return nil, nil, false
	}
	return data[at : at+n], data[at+n:], true
}

// appendTo appends the element to out.
func (e *element) appendTo(out []byte) []byte {
	content := e.content
	if e.tag&constructed != 0 {
		content = nil
		for _, c := range e.children {
			content = c.appendTo(content)
		}
	}
	out = append(out, e.tag)
	if e.length != nil {
		return append(append(out, e.length...), content...)
	}
	switch n := len(content); {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 0x100:
		out = append(out, 0x81, byte(n))
	case n < 0x10000:
		out = append(out, 0x82, byte(n>>8), byte(n))
	default:
		out = append(out, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	return append(out, content...)
}

func (e *element) cloneTree() *element {
	c := *e
	c.children = nil
	for _, child := range e.children {
		c.children = append(c.children, child.cloneTree())
	}
	return &c
}

// allElements returns the element and all below it.
func (e *element) allElements() []*element {
	list := []*element{e}
	for _, c := range e.children {
		list = append(list, c.allElements()...)
	}
	return list
}

func pickOne[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// hostileTexts are contents that mean something in a certificate, or break what reads it.
func hostileTexts() []string {
	return []string{
		"spiffe://cluster.local/ns/istio-system/sa/istiod",
		"spiffe://cluster.local/ns/victim/sa/admin\x00",
		"spiffe://evil/ns/a/sa/b",
		"istiod.istio-system.svc",
		"*",
		"",
		"\x00",
		"\xff\xfe",
		"a\nb",
		"%00",
		"../..",
		"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e",
		"\x55\x1d\x11",
		"\x55\x1d\x13",
		"\x30\x03\x01\x01\xff",
		"\x00\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x80\x00\x00\x00\x00\x00\x00\x00",
		"\x7f\x00\x00\x01",
	}
}

// mutateTree changes one element of the tree.
func mutateTree(r *rand.Rand, root *element) {
	list := root.allElements()
	e := pickOne(r, list)
	switch r.IntN(12) {
	case 0:
		e.tag = byte(r.IntN(256)) | e.tag&constructed
	case 1:
		e.tag = pickOne(
			r,
			[]byte{tagInteger, tagBitString, tagOctets, tagNull, tagOID, 0x0c, 0x13, 0x16, 0x17, 0x80, 0x82, 0x86,
				0x87},
		) | e.tag&constructed
	case 2:
		e.length = pickOne(
			r,
			[][]byte{{0x80}, {0x81, 0x01}, {0x82, 0xff, 0xff}, {0x84, 0xff, 0xff, 0xff, 0xff},
				{0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x00}, {0xff}},
		)
	case 3, 4:
		e.content = []byte(pickOne(r, hostileTexts()))
	case 5:
		if n := len(e.content); n > 0 {
			e.content = append([]byte(nil), e.content...)
			e.content[r.IntN(n)] ^= 1 << r.IntN(8)
		}
	case 6:
		if n := len(e.children); n > 0 {
			i := r.IntN(n)
			e.children = append(append([]*element(nil), e.children[:i]...), e.children[i+1:]...)
		}
	case 7:
		if len(e.children) > 0 {
			e.children = append(e.children, pickOne(r, list).cloneTree())
		}
	case 8:
		if n := len(e.children); n > 1 {
			r.Shuffle(n, func(i, j int) { e.children[i], e.children[j] = e.children[j], e.children[i] })
		}
	case 9:
		if n := len(e.children); n > 0 {
			for range pickOne(r, []int{1, 2, 50}) {
				e.children = append(e.children, e.children[r.IntN(n)].cloneTree())
			}
		}
	case 10:
		inner := e.cloneTree()
		for range pickOne(r, []int{1, 3, 60}) {
			inner = &element{tag: pickOne(r, []byte{tagSequence, tagSet, 0xa0}), children: []*element{inner}}
		}
		*e = *inner
	default:
		if e.tag == tagInteger {
			e.content = []byte(
				pickOne(r, []string{"\x00", "\x01", "\x02", "\xff", "\x7f\xff\xff\xff\xff\xff\xff\xff\xff"}),
			)
		} else {
			*e = *pickOne(r, list).cloneTree()
		}
	}
}
