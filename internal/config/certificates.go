package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
)

var (
	errFolder     = errors.New("it is a folder")
	errNotRegular = errors.New("it is not a regular file")
	errTooLarge   = errors.New("it is too large")
)

// certificateFiles checks the files of one TLS section and digests them.
type certificateFiles struct {
	validator
	content hash.Hash
}

func (v validator) newFiles() certificateFiles {
	return certificateFiles{validator: v, content: sha256.New()}
}

func (c certificateFiles) digest() string { return hex.EncodeToString(c.content.Sum(nil)) }

// pair checks that key+"cert" and key+"key" name a certificate and its key.
func (c certificateFiles) pair(key string, cert, private *string) {
	if *cert == "" || *private == "" {
		return
	}
	given := *cert
	certPEM, certOK := c.readKeyFile(key+"cert", cert)
	keyPEM, keyOK := c.readKeyFile(key+"key", private)
	c.content.Write(certPEM)
	c.content.Write(keyPEM)
	if !certOK || !keyOK {
		return
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		c.wrong(key+"cert", shown(given), "does not work with "+key+"key: "+strings.TrimPrefix(err.Error(), "tls: "),
			"name a certificate and its private key, both in PEM form")
	}
}

// authorities checks that the file holds certificates to trust.
func (c certificateFiles) authorities(key string, path *string) {
	if *path == "" {
		return
	}
	given := *path
	content, ok := c.readKeyFile(key, path)
	c.content.Write(content)
	if ok && !x509.NewCertPool().AppendCertsFromPEM(content) {
		c.wrong(key, shown(given), "holds no certificate", "name a file of certificates in PEM form")
	}
}
