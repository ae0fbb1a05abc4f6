package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// KeyType is the type of the keys that the control plane generates. The zero value is ECDSA on
// P-256.
type KeyType struct {
	// RSABits is the length of RSA keys (CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE). If 0, keys are
	// ECDSA.
	RSABits int
}

// GenerateKey returns a new private key: RSA with RSABits bits, or ECDSA on P-256 if RSABits is 0.
func (t KeyType) GenerateKey(random io.Reader) (crypto.Signer, error) {
	if t.RSABits == 0 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), random)
		if err != nil {
			return nil, fmt.Errorf("generate an ECDSA key: %w", err)
		}
		return key, nil
	}
	key, err := rsa.GenerateKey(random, t.RSABits)
	if err != nil {
		return nil, fmt.Errorf("generate an RSA key of %d bits: %w", t.RSABits, err)
	}
	return key, nil
}

// Bounds of the RSA keys of certificate requests. Longer keys make every signature check expensive.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// checkPublicKey returns an error unless certificates may be signed for the key: ECDSA on P-256 and
// P-384, Ed25519, and RSA keys that checkRSA accepts.
func checkPublicKey(key any) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if c := key.Curve; c != elliptic.P256() && c != elliptic.P384() {
			return fmt.Errorf("an ECDSA key on %s: want P-256 or P-384", c.Params().Name)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		return checkRSA(key)
	default:
		return fmt.Errorf("an unsupported key type %T: want ECDSA, Ed25519 or RSA", key)
	}
}

// checkRSA returns an error if the length of the key is not within minRSABits and maxRSABits, if
// the exponent is even or less than 3, or if the modulus can be factored by a known attack. The
// exponent has no upper bound.
func checkRSA(key *rsa.PublicKey) error {
	n := key.N
	switch bits := n.BitLen(); {
	case bits < minRSABits || bits > maxRSABits:
		return fmt.Errorf("an RSA key of %d bits: want %d to %d", bits, minRSABits, maxRSABits)
	case key.E < 3 || key.E%2 == 0:
		return fmt.Errorf("an RSA key with the exponent %d", key.E)
	case n.Bit(0) == 0 || hasSmallFactor(n):
		return errors.New("an RSA key whose modulus has a small factor")
	case isROCA(n):
		return errors.New("an RSA key that can be factored (CVE-2017-15361)")
	case hasCloseFactors(n):
		return errors.New("an RSA key with close prime factors (CVE-2022-26320)")
	}
	return nil
}

// smallPrimes are the primes that the test for CVE-2017-15361 (ROCA) uses.
var smallPrimes = [...]int64{
	3,
	5,
	7,
	11,
	13,
	17,
	19,
	23,
	29,
	31,
	37,
	41,
	43,
	47,
	53,
	59,
	61,
	67,
	71,
	73,
	79,
	83,
	89,
	97,
	101,
	103,
	107,
	109,
	113,
	127,
	131,
	137,
	139,
	149,
	151,
	157,
	163,
	167,
}

// hasSmallFactor reports whether one of smallPrimes divides n.
func hasSmallFactor(n *big.Int) bool {
	var rest big.Int
	for _, p := range smallPrimes {
		if rest.Mod(n, big.NewInt(p)).Sign() == 0 {
			return true
		}
	}
	return false
}

// isROCA reports whether the modulus is a power of 65537 modulo each of the small primes. That is
// true for keys of the flawed library, and for one in 10^8 of others (Nemec and others, "The Return
// of Coppersmith's Attack", 2017).
func isROCA(n *big.Int) bool {
	var rest big.Int
	for _, p := range smallPrimes {
		is := rest.Mod(n, big.NewInt(p)).Int64()
		power, among := int64(1), false
		for range p {
			if power == is {
				among = true
				break
			}
			power = power * 65537 % p
		}
		if !among {
			return false
		}
	}
	return true
}

// hasCloseFactors reports whether n is a square, or Fermat's factorization finds a factor within
// 100 steps, which is enough for keys of CVE-2022-26320.
func hasCloseFactors(n *big.Int) bool {
	const steps = 100
	one := big.NewInt(1)
	a := new(big.Int).Sqrt(n)
	var square, root big.Int
	if square.Mul(a, a).Cmp(n) == 0 {
		return true
	}
	for range steps {
		a.Add(a, one)
		square.Mul(a, a).Sub(&square, n)
		root.Sqrt(&square)
		if root.Mul(&root, &root).Cmp(&square) == 0 {
			return true
		}
	}
	return false
}
