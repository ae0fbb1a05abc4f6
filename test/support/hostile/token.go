package hostile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Tokens generates JWTs for a server that accepts tokens signed by its ES256 key. It is for one
// goroutine.
type Tokens struct {
	*rand.Rand
	// Issuer, Audience and Subjects are accepted by the server; Subjects name accounts that it
	// knows.
	Issuer, Audience string
	Subjects         []string
	// KeyID is that of Key, the server's own.
	KeyID string
	Key   *ecdsa.PrivateKey

	attacker *ecdsa.PrivateKey
}

// Token is a generated token.
type Token struct {
	Text string
	Kind string
	// Genuine reports whether the text is signed by the server's key as it stands. Only then may it
	// be accepted, and only for Subject.
	Genuine bool
	Subject string
}

// encodeSegment encodes base64url without padding, as in JWTs.
func encodeSegment(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }

// Next generates a token.
func (g *Tokens) Next() (Token, error) {
	if g.attacker == nil {
		var err error
		if g.attacker, err = ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader); err != nil {
			return Token{}, fmt.Errorf("make a key: %w", err)
		}
	}
	header, claims, subject := g.makeHeader(), g.makeClaims(), pickOne(g.Rand, g.Subjects)
	if claims["sub"] == nil {
		claims["sub"] = subject
	}
	subject, _ = claims["sub"].(string)
	switch g.IntN(10) {
	case 0, 1, 2, 3: // tokens signed by the server's key, whatever they contain
		text, err := g.signToken(g.Key, g.encodeObject(header), g.encodeObject(claims))
		return Token{Text: text, Kind: "signed claims", Genuine: true, Subject: subject}, err
	case 4, 5, 6:
		return g.forgeToken(header, claims)
	default:
		good, err := g.signToken(
			g.Key,
			g.encodeObject(map[string]any{"alg": "ES256", "kid": g.KeyID}),
			g.encodeObject(g.goodClaims(subject)),
		)
		return g.damageToken(good, subject), err
	}
}

func (g *Tokens) goodClaims(subject string) map[string]any {
	return map[string]any{
		"iss": g.Issuer,
		"aud": []string{g.Audience},
		"sub": subject,
		"exp": time.Now().Add(time.Hour).Unix(),
	}
}

// makeHeader is mostly good.
func (g *Tokens) makeHeader() map[string]any {
	h := map[string]any{"alg": "ES256", "kid": g.KeyID}
	public, _ := x509.MarshalPKIXPublicKey(&g.Key.PublicKey) // of a good key
	switch g.IntN(12) {
	case 0:
		h["alg"] = pickOne(
			g.Rand,
			[]any{"none", "None", "HS256", "ES384", "RS256", "EdDSA", "PS256", "", nil, 1, []string{"ES256"}},
		)
	case 1:
		h["kid"] = pickOne(g.Rand, []any{"", "other", "../../key", strings.Repeat("k", 5000), nil, 1, "\x00"})
	case 2:
		h["crit"] = pickOne(g.Rand, []any{[]string{"exp"}, []string{}, "b64", []any{1}})
	case 3:
		h["jwk"] = map[string]any{
			"kty": "EC",
			"crv": "P-256",
			"x":   encodeSegment(public[27:59]),
			"y":   encodeSegment(public[59:]),
		}
	case 4:
		h["jku"], h["x5u"] = "http://127.0.0.1:1/keys", "http://169.254.169.254/"
	case 5:
		h["b64"], h["crit"] = false, []string{"b64"}
	}
	return h
}

// makeClaims are valid, or have one invalid claim.
func (g *Tokens) makeClaims() map[string]any {
	c := g.goodClaims(pickOne(g.Rand, g.Subjects))
	odd := []any{nil, 1, -1, 1e308, "", []any{}, map[string]any{}, true, strings.Repeat("[", 500), "\x00", "\u202e"}
	switch g.IntN(10) {
	case 0:
		c[pickOne(g.Rand, []string{"iss", "aud", "sub", "exp", "nbf", "iat"})] = pickOne(g.Rand, odd)
	case 1:
		delete(c, pickOne(g.Rand, []string{"iss", "aud", "exp"}))
	case 2, 3, 4:
		c["sub"] = pickOne(g.Rand, []string{
			"system:serviceaccount:istio-system:istiod",
			"system:serviceaccount:shop",
			"system:serviceaccount:shop:web:x",
			"system:serviceaccount::web",
			":::",
			"system:serviceaccount:shop:",
			"system:serviceaccount:shop:web\x00",
			"system:serviceaccount:shop/../bank:web",
			"system:serviceaccount:shop:web/sa/x",
			" system:serviceaccount:shop:web",
			"SYSTEM:SERVICEACCOUNT:shop:web",
			"system:node:n",
			"web",
			"system:serviceaccount:shop:%77eb",
			"system:serviceaccount:shop:nobody",
			"system:serviceaccount:shop:" + strings.Repeat("a", 3000),
			"system:serviceaccount:shop:wéb",
		})
	case 5:
		c["exp"] = time.Now().
			Add(pickOne(g.Rand, []time.Duration{-time.Hour, -3 * time.Minute, time.Hour, 1 << 62})).
			Unix()
	case 6:
		c["nbf"] = time.Now().Add(pickOne(g.Rand, []time.Duration{time.Hour, -time.Hour})).Unix()
	case 7:
		c["aud"] = pickOne(
			g.Rand,
			[]any{
				"other",
				[]string{"other", g.Audience},
				[]any{1, g.Audience},
				g.Audience,
				[]string{},
				map[string]any{"a": g.Audience},
			},
		)
	}
	return c
}

// encodeObject writes JSON, sometimes with a duplicate name, or nested deeper than parsers allow.
func (g *Tokens) encodeObject(fields map[string]any) []byte {
	text, err := json.Marshal(fields)
	if err != nil {
		return []byte("{}")
	}
	switch g.IntN(25) {
	case 0:
		return []byte(`{"sub":"system:serviceaccount:istio-system:istiod","alg":"none",` + string(text[1:]))
	case 1:
		return []byte(`{"deep":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + "," + string(text[1:]))
	case 2:
		return pickOne(
			g.Rand,
			[][]byte{
				[]byte("null"),
				[]byte("[]"),
				[]byte("1"),
				[]byte(`""`),
				[]byte("{}"),
				{},
				{0xff},
				text[:g.IntN(len(text))],
			},
		)
	default:
		return text
	}
}

// signToken joins the parts of a token with a signature by ES256.
func (*Tokens) signToken(key *ecdsa.PrivateKey, header, claims []byte) (string, error) {
	input := encodeSegment(header) + "." + encodeSegment(claims)
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(cryptorand.Reader, key, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return input + "." + encodeSegment(signature), nil
}

// forgeToken is signed by anything but the server's key.
func (g *Tokens) forgeToken(header, claims map[string]any) (Token, error) {
	subject, _ := claims["sub"].(string)
	input := encodeSegment(g.encodeObject(header)) + "." + encodeSegment(g.encodeObject(claims))
	switch g.IntN(5) {
	case 0:
		return Token{
			Text:    encodeSegment([]byte(`{"alg":"none"}`)) + "." + encodeSegment(g.encodeObject(claims)) + ".",
			Kind:    "unsigned",
			Subject: subject,
		}, nil
	case 1: // the public key as the secret of an HMAC
		public, _ := x509.MarshalPKIXPublicKey(&g.Key.PublicKey)
		header := []byte(`{"alg":"HS256","kid":"` + g.KeyID + `"}`)
		input = encodeSegment(header) + "." + encodeSegment(g.encodeObject(claims))
		mac := hmac.New(crypto.SHA256.New, public)
		mac.Write([]byte(input))
		return Token{Text: input + "." + encodeSegment(mac.Sum(nil)), Kind: "HMAC", Subject: subject}, nil
	case 2: // r = s = 0, or n
		signature := make([]byte, 64)
		if g.IntN(2) == 0 {
			elliptic.P256().Params().N.FillBytes(signature[:32])
			elliptic.P256().Params().N.FillBytes(signature[32:])
		}
		return Token{Text: input + "." + encodeSegment(signature), Kind: "zero signature", Subject: subject}, nil
	case 3: // the attacker's own key, sent along
		public := g.attacker.PublicKey
		der, _ := x509.MarshalPKIXPublicKey(&public)
		header["jwk"] = map[string]any{
			"kty": "EC",
			"crv": "P-256",
			"x":   encodeSegment(der[27:59]),
			"y":   encodeSegment(der[59:]),
		}
		fallthrough
	default:
		text, err := g.signToken(g.attacker, g.encodeObject(header), g.encodeObject(claims))
		return Token{Text: text, Kind: "another key", Subject: subject}, err
	}
}

// damageToken changes the text of a good token.
func (g *Tokens) damageToken(good, subject string) Token {
	t := Token{Text: good, Kind: "damaged", Subject: subject}
	parts := strings.Split(good, ".")
	if len(parts) != 3 {
		return t
	}
	switch g.IntN(9) {
	case 0:
		parts[2] = parts[2][:g.IntN(len(parts[2]))]
	case 1:
		parts[1] = encodeSegment(
			[]byte(
				strings.Replace(
					string(decodeSegment(parts[1])),
					subject,
					"system:serviceaccount:istio-system:istiod",
					1,
				),
			),
		)
	case 2:
		parts = append(parts, pickOne(g.Rand, []string{"", "x", parts[1]}), "x")[:3+g.IntN(3)]
		t.Genuine = len(parts) == 3
	case 3:
		parts[g.IntN(3)] += pickOne(g.Rand, []string{"=", "==", "\n", " ", "+", "/", "\t"})
		t.Genuine = true // of the same bytes, for a decoder that is lenient
	case 4:
		at := g.IntN(2)
		b := []byte(parts[at])
		if len(b) > 0 {
			b[g.IntN(len(b))] ^= 1
		}
		t.Genuine = bytes.Equal(
			decodeSegment(string(b)),
			decodeSegment(parts[at]),
		) // the bits of the last character that have no meaning
		parts[at] = string(b)
	case 5:
		return Token{Text: strings.Repeat("a.", 5000), Kind: "dots", Subject: subject}
	case 6:
		text, _ := json.Marshal(
			map[string]any{"payload": parts[1], "protected": parts[0], "signature": parts[2]},
		) // of strings
		return Token{Text: string(text), Kind: "JSON form", Genuine: true, Subject: subject}
	case 7:
		parts[2] = encodeSegment(append(decodeSegment(parts[2]), 0))
	default:
		t.Kind, t.Genuine = "good", true
	}
	t.Text = strings.Join(parts, ".")
	t.Genuine = t.Genuine || t.Text == good // the mutation may produce the original bytes
	return t
}

func decodeSegment(text string) []byte {
	b, _ := base64.RawURLEncoding.DecodeString(text) // of our own making
	return b
}
