package status

import (
	"bytes"
	"slices"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// Envoy's metrics of requests and connections have Istio's labels in one, as the control plane has asked for them
// (internal/translate/telemetry): "r=s|c=200|s=HOST;NAME;NAMESPACE|p=WORKLOAD;NAMESPACE;…|…".
// Envoy would take more than three times as long for a label each. They are taken apart here, and get the names that Istio's users
// know: "envoy_istio_rx_count{standard="…"}" becomes "istio_request_bytes_count{reporter="source",…}".
const (
	envoyPrefix   = "envoy_"
	istioPrefix   = "istio_"
	standardLabel = "standard"
	// removed is the value of a label, or a part of one, that a user has removed.
	removed = "!"
	unknown = "unknown"
)

// labeler gives metrics of Envoy's Istio's names and labels. It is for one answer: it remembers labels that come again, and
// uses its buffers again.
type labeler struct {
	own ownLabels
	// requests and connections are what was made of labels before, as Envoy has them.
	requests, connections map[string]expansion
	// text has all expansions. The others are of the one that is being made.
	text   []byte
	parsed []label
	values values

	// declared is the metric of Envoy's whose lines are being read, and its type.
	declared, kind string
	current        *family
	// families are Istio's metrics, in the order of their first lines.
	families []*family
	named    map[string]*family
}

// expansion is what was made of the labels of a series, and whether a connection was opened or closed by what it counts.
type expansion struct {
	from, to       int // in labeler.text
	opened, closed bool
}

// family is a metric with all of its lines, which belong together though several of Envoy's metrics may be what they come of.
type family struct {
	name  string
	lines []byte
}

func newLabeler(own node.Workload) *labeler {
	return &labeler{
		own: newOwnLabels(own), requests: map[string]expansion{}, connections: map[string]expansion{}, named: map[string]*family{},
	}
}

// rewrite gives the text with everything that is not Istio's as it is, and then Istio's metrics as users know them.
func (l *labeler) rewrite(text []byte) []byte {
	if !bytes.Contains(text, []byte(envoyPrefix+istioPrefix)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		rest, comment := bytes.CutPrefix(line, []byte("# TYPE "))
		metric, ours := bytes.CutPrefix(rest, []byte(envoyPrefix))
		switch {
		case !ours || !bytes.HasPrefix(metric, []byte(istioPrefix)):
			out = append(out, line...)
		case comment:
			l.declare(string(bytes.TrimSuffix(metric, []byte("\n"))))
		default:
			l.metric(bytes.TrimSuffix(metric, []byte("\n")))
		}
	}
	size := 0
	for _, f := range l.families {
		size += len(f.lines)
	}
	out = slices.Grow(out, size)
	for _, f := range l.families {
		out = append(out, f.lines...)
	}
	return out
}

// family gives the metric of a name; kind is its type if it is new, "" for none.
func (l *labeler) family(name, kind string) *family {
	f := l.named[name]
	if f == nil {
		f = &family{name: name}
		l.named[name], l.families = f, append(l.families, f)
		if kind != "" {
			f.lines = append(f.lines, "# TYPE "+name+" "+kind+"\n"...)
		}
	}
	return f
}

// metric takes "NAME{LABELS} VALUE", and adds it to what it is for.
func (l *labeler) metric(line []byte) {
	begin, end := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}')
	if begin < 0 || end < begin {
		name, value, _ := bytes.Cut(line, []byte(" "))
		f := l.family(string(name), "")
		f.lines = append(append(append(append(f.lines, name...), ' '), value...), '\n')
		return
	}
	labels, bucket := line[begin+1:end], []byte(nil)
	if i := bytes.LastIndex(labels, []byte(`le="`)); i == 0 || i > 0 && labels[i-1] == ',' { // the only one that differs in a histogram
		labels, bucket = bytes.TrimSuffix(labels[:i], []byte(",")), labels[i:]
	}
	l.add(line[:begin], labels, bucket, line[end+1:])
}

// add writes a line of the metric. Suffix is "_bucket" and the like, bucket the label "le"; they may be nothing. value has its space.
func (f *family) add(suffix, labels, bucket, value []byte) {
	f.lines = slices.Grow(f.lines, len(f.name)+len(suffix)+len(labels)+len(bucket)+len(value)+4)
	f.lines = append(append(append(append(f.lines, f.name...), suffix...), '{'), labels...)
	if len(labels) > 0 && len(bucket) > 0 {
		f.lines = append(f.lines, ',')
	}
	f.lines = append(append(append(append(f.lines, bucket...), '}'), value...), '\n')
}

// expand takes labels apart; connection says of what they are. Those that are not ours stay as they are, but that Istio's word
// for no value is "unknown".
func (l *labeler) expand(labels []byte, connection bool) (expansion, []byte) {
	seen := l.requests
	if connection {
		seen = l.connections
	}
	x, ok := seen[string(labels)]
	if !ok {
		key := string(labels)
		x = l.write(key, connection)
		seen[key] = x
	}
	return x, l.text[x.from:x.to]
}

func (l *labeler) write(text string, connection bool) expansion {
	x := expansion{from: len(l.text)}
	l.parsed = parse(l.parsed[:0], text)
	i := indexOf(l.parsed, standardLabel)
	if i < 0 {
		l.text = append(l.text, text...)
		x.to = len(l.text)
		return x
	}
	r := readRecord(l.parsed[i].value)
	x.opened, x.closed = r.opens(), r.closes()
	l.values.set(&r, &l.own, connection)
	for n, v := range l.values {
		if name := labelName(n); v.there && v.text != removed && indexOf(l.parsed, name) < 0 {
			l.label(x.from, name, v.text)
		}
	}
	for j, p := range l.parsed {
		if j != i {
			l.label(x.from, p.name, orUnknown(p.value))
		}
	}
	x.to = len(l.text)
	return x
}

// label appends a label to those that begin at from.
func (l *labeler) label(from int, name, value string) {
	if len(l.text) > from {
		l.text = append(l.text, ',')
	}
	l.text = append(append(append(append(l.text, name...), `="`...), value...), '"')
}
