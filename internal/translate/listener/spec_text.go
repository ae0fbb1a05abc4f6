package listener

import "strconv"

// String returns the complete text of the Spec. Two Specs have the same text only if they are
// equal.
func (s *Spec) String() string { return string(s.appendText(nil, true)) }

// appendText appends the complete text of the listener, which differs for different Specs. Without
// extensions, it omits the parts that come by ECDS; that text is part of the cache key of the
// encoded listener.
func (s *Spec) appendText(b []byte, extensions bool) []byte {
	b = appendWord(append(b, "listener "...), s.Name)
	b = append(b, " at "...)
	b = appendWord(b, s.Address)
	for _, a := range s.More {
		b = appendWord(append(b, " and "...), a)
	}
	b = appendNumber(append(b, " port "...), s.Port)
	b = appendFlag(b, " outbound", !s.Inbound)
	b = appendFlag(b, " inbound", s.Inbound)
	b = appendFlag(b, " of a gateway", s.Gateway)
	b = appendFlag(b, ", bound", s.Bind)
	b = appendFlag(b, ", handing on", s.UseOriginalDst)
	b = appendFlag(b, ", transparent", s.Transparent)
	b = appendFlag(b, ", by QUIC", s.QUIC)
	b = appendFlag(b, ", local destination", s.LocalDestination)
	b = appendFlag(b, "\n  proxy_protocol", s.ProxyProtocol)
	b = appendFlag(b, "\n  original_dst", s.OriginalDst)
	b = appendFlag(b, "\n  tls_inspector", s.TLSInspector)
	b = appendFlag(b, "\n  http_inspector", s.HTTPInspector)
	for i, p := range s.NoInspection {
		if i == 0 {
			b = append(b, " except on ports"...)
		}
		b = appendNumber(append(b, ' '), p)
	}
	for i, p := range s.NoHTTPInspection {
		if i == 0 {
			b = append(b, ", for HTTP neither on"...)
		}
		b = appendNumber(append(b, ' '), p)
	}
	for i := range s.Chains {
		b = s.Chains[i].appendText(append(b, "\n  chain "...), extensions)
	}
	b = s.Default.appendText(append(b, "\n  default "...), extensions)
	if s.UDP != nil {
		b = appendWord(append(b, "\n  udp "...), s.UDP.StatPrefix)
		for _, c := range s.UDP.Clusters {
			b = appendNumber(append(appendWord(append(b, ' '), c.Name), ' '), c.Weight)
		}
	}
	for _, k := range s.From {
		b = appendWord(append(b, "\n  from "...), string(k.Kind))
		b = appendWord(append(b, ' '), k.Namespace)
		b = appendWord(append(b, ' '), k.Name)
	}
	return append(b, '\n')
}

// appendText appends the text of a chain. If a TCP proxy comes by ECDS, extensions includes all of
// it; otherwise only the parts that the listener contains are appended.
func (c *Chain) appendText(b []byte, extensions bool) []byte {
	b = appendWord(b, c.Name)
	if c.Match.DestinationPort != 0 {
		b = appendNumber(append(b, " port "...), c.Match.DestinationPort)
	}
	b = appendWords(b, " to", c.Match.Prefixes)
	b = appendWords(b, " sni", c.Match.SNI)
	if c.Match.Transport != "" {
		b = appendWord(append(b, " transport "...), c.Match.Transport)
	}
	b = appendFlag(b, " if http", c.Match.HTTP)
	b = appendWords(b, " alpn", c.Match.ALPN)
	if c.TLS != nil {
		b = c.TLS.appendText(append(b, "\n    tls"...))
	}
	if c.HTTP != nil {
		b = c.HTTP.appendText(append(b, "\n    http "...))
	}
	if c.TCP == nil {
		return b
	}
	b = appendFlag(append(b, "\n    tcp "...), "by ECDS ", c.TCP.Discovered)
	if c.TCP.Discovered && !extensions {
		return c.TCP.Lookup.appendText(appendFlag(b, "mongo", c.TCP.Mongo))
	}
	return c.TCP.appendText(b)
}

// appendText appends the complete text of a connection manager to b and returns it. Different ones
// have different texts.
func (h *HTTP) appendText(b []byte) []byte {
	b = appendWord(b, h.StatPrefix)
	if h.Route != "" {
		b = appendWord(append(b, " rds "...), h.Route)
	}
	if r := h.Inbound; r != nil {
		b = appendWord(append(b, " => "...), r.Cluster)
		b = appendWord(append(b, ", host "...), r.VirtualHost)
		b = appendWord(append(b, ", operation "...), r.Operation)
		b = appendFlag(b, ", no retry", !r.Retries)
	}
	b = appendFlag(b, ", grpc-web", h.GRPCWeb)
	b = h.Lookup.appendText(b)
	b = appendFlag(b, ", destination header", h.Destination)
	b = appendFlag(b, ", absolute URLs", h.AbsoluteURL)
	if h.Gateway != nil {
		b = h.Gateway.appendText(b)
	}
	return b
}

// appendText appends the complete text of a TCP proxy to b and returns it, except Discovered, which
// the caller appends. Fields with their zero value are left out.
func (t *TCP) appendText(b []byte) []byte {
	b = appendWord(b, t.StatPrefix)
	for _, c := range t.Clusters {
		b = appendWord(append(b, " => "...), c.Name)
		if c.Weight != 0 {
			b = appendNumber(append(b, " weight "...), c.Weight)
		}
	}
	b = appendFlag(b, ", passed through", t.PassedThrough)
	b = appendFlag(b, ", mongo", t.Mongo)
	b = appendFlag(b, ", redis", t.Redis)
	b = t.Lookup.appendText(b)
	if t.IdleTimeoutMS != 0 {
		// negative: unlimited
		b = append(strconv.AppendInt(append(b, ", idle "...), t.IdleTimeoutMS, 10), "ms"...)
	}
	if t.MaxDurationMS != 0 {
		b = append(strconv.AppendInt(append(b, ", at most "...), t.MaxDurationMS, 10), "ms"...)
	}
	b = appendFlag(b, ", hash of source IP", t.SourceIPHash)
	if t.Tunnel != "" {
		b = appendWord(append(b, ", tunnelled to "...), t.Tunnel)
	}
	return appendFlag(b, " by POST", t.TunnelByPost)
}

// appendNumber appends n in decimal.
func appendNumber(b []byte, n uint32) []byte { return strconv.AppendUint(b, uint64(n), 10) }

// appendFlag appends text if on is set.
func appendFlag(b []byte, text string, on bool) []byte {
	if on {
		b = append(b, text...)
	}
	return b
}

// appendWords appends what, a space and the words, separated by commas; nothing without words.
// Words that are empty or have special characters are quoted (appendWord).
func appendWords(b []byte, what string, words []string) []byte {
	if len(words) == 0 {
		return b
	}
	b = append(b, what...)
	for i, w := range words {
		sep := byte(',')
		if i == 0 {
			sep = ' '
		}
		b = appendWord(append(b, sep), w)
	}
	return b
}

// appendWord appends a word to b and returns it. The word is quoted if it is empty or contains a
// space, control character, comma, quote or a byte outside ASCII.
func appendWord(b []byte, word string) []byte {
	for i := range len(word) {
		if c := word[i]; c <= ' ' || c == '"' || c == ',' || c >= 0x7f {
			return strconv.AppendQuote(b, word)
		}
	}
	if word == "" {
		return append(b, `""`...)
	}
	return append(b, word...)
}
