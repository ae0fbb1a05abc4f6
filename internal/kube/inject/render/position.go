package render

// yamlContext is the syntactic context of the next byte.
type yamlContext int

const (
	// before the first character of a line, after indentation and dashes
	lineStart   yamlContext = iota
	valueStart              // where a value may begin: after a colon, or in a flow collection
	plain                   // inside a plain scalar
	double                  // inside double quotes
	single                  // inside single quotes
	singleQuote             // after a quote that ends single quotes, unless another one follows
	closed                  // after closing quotes
	comment                 // after a #
	blockHeader             // after | or >, until the end of the line
	block                   // inside a block scalar
)

// position tracks YAML byte by byte, as far as needed to determine how an inserted value would be
// parsed. It supports block and flow collections and scalars of all styles. For invalid YAML the
// context is arbitrary, which is harmless because that document is rejected later.
type position struct {
	context yamlContext
	prev    byte
	// escaped is true after a backslash in double quotes.
	escaped bool
	// column is the number of bytes in the line. node is the column of the innermost dash or key of
	// the line, beyond which its block scalar is indented. dash is true if the last byte may be a
	// dash that begins an item.
	column, node int
	dash         bool
	// inner is the column beyond which a block scalar is indented. indenting is true while its line
	// has only spaces.
	inner     int
	indenting bool
	// flow is the number of open flow collections.
	flow int
}

// advance updates the syntactic context after one byte of YAML output. A line feed ends the line
// and resets the column; any other byte advances the column.
func (p *position) advance(c byte) {
	if c == '\n' {
		p.endLine()
		p.column, p.prev = 0, c
		return
	}
	switch p.context {
	case block:
		p.inBlock(c)
	case lineStart:
		p.beginLine(c)
	case valueStart:
		p.beginValue(c)
	case plain, closed:
		p.inPlain(c)
	case double:
		p.inDouble(c)
	case single:
		if c == '\'' {
			p.context = singleQuote
		}
	case singleQuote:
		if c == '\'' {
			p.context = single
		} else {
			p.context = closed
			p.inPlain(c)
		}
	}
	p.column++
	p.prev = c
}

// endLine updates the context after a line feed. Quoted scalars and blocks continue on the next
// line, and a block begins after its header. Any other line ends, and a dash alone on it begins an
// item.
func (p *position) endLine() {
	switch p.context {
	case double, single: // continue on the next line
		p.escaped = false
		return
	case blockHeader:
		p.context, p.indenting = block, true
		return
	case block:
		p.indenting = true
		return
	}
	if p.dash { // a dash alone on its line
		p.node, p.dash = p.column-1, false
	}
	p.context = lineStart
}

// nextContext returns the context of the next byte, assuming it is part of a value.
func (p *position) nextContext() yamlContext {
	switch {
	case p.context == block && p.indenting && p.column <= p.inner:
		return lineStart
	case p.context == singleQuote:
		return closed
	}
	return p.context
}

// inBlock updates the context after a byte of a block scalar, which ends at a line that is not
// indented enough.
func (p *position) inBlock(c byte) {
	if !p.indenting || c == ' ' {
		return
	}
	p.indenting = false
	if p.column <= p.inner { // the block ended on the previous line
		p.context = lineStart
		p.beginLine(c)
	}
}

// beginLine updates the context after a byte of a line that so far has only spaces and item dashes.
// A dash outside flow collections begins an item if a space follows, and otherwise a scalar. Any
// other byte begins a value or key, whose column is recorded.
func (p *position) beginLine(c byte) {
	if p.dash {
		p.dash = false
		if c != ' ' { // the beginning of a scalar such as -1 or ---
			p.context = plain
			p.inPlain(c)
			return
		}
		p.node = p.column - 1
		return
	}
	switch c {
	case ' ', '\t':
		return
	case '-':
		p.dash = p.flow == 0
		if p.dash {
			return
		}
	case '|', '>': // belongs to the preceding dash
	default:
		p.node = p.column
	}
	p.beginValue(c)
}

// beginValue updates the context for the byte c, with which a YAML value may begin. Spaces and tabs
// begin none. A quote, '#', bracket or block header sets the context of what follows; any other
// byte begins a plain scalar.
func (p *position) beginValue(c byte) {
	switch c {
	case ' ', '\t':
		if p.context == lineStart {
			return
		}
		p.context = valueStart
	case '"':
		p.context, p.escaped = double, false
	case '\'':
		p.context = single
	case '#':
		p.context = comment
	case '[', '{':
		p.flow++
		p.context = valueStart
	case ']', '}':
		p.flow = max(0, p.flow-1)
		p.context = closed
	case ',':
		p.context = valueStart
	case '|', '>':
		p.context = plain
		if p.flow == 0 {
			p.context, p.inner = blockHeader, p.node
		}
	default:
		p.context = plain
	}
}

// inPlain updates the context after a byte of a plain scalar, or after a byte that follows a closed
// value. A colon and a blank begin a value, and in a flow collection also a comma, or a colon after
// a closed value. A blank and "#" begin a comment, and brackets of flow collections open or close
// one. After other bytes the context stays.
func (p *position) inPlain(c byte) {
	switch {
	case p.prev == ':' && (c == ' ' || c == '\t'),
		p.flow > 0 && c == ',',
		p.context == closed && c == ':' && p.flow > 0:
		p.context = valueStart
	case (p.prev == ' ' || p.prev == '\t') && c == '#':
		p.context = comment
	case p.flow > 0 && (c == ']' || c == '}'):
		p.flow--
		p.context = closed
	case p.flow > 0 && (c == '[' || c == '{'):
		p.flow++
		p.context = valueStart
	}
}

// inDouble updates the context after a byte inside double quotes: a backslash escapes the next
// byte, and a quote that is not escaped closes the scalar.
func (p *position) inDouble(c byte) {
	switch {
	case p.escaped:
		p.escaped = false
	case c == '\\':
		p.escaped = true
	case c == '"':
		p.context = closed
	}
}
