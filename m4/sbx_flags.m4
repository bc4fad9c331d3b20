dnl SPDX-License-Identifier: Apache-2.0
dnl SBX_TRY_CFLAG(FLAG): add FLAG to SBX_CFLAGS when the compiler takes it.
AC_DEFUN([SBX_TRY_CFLAG], [
  AC_MSG_CHECKING([whether $CC takes $1])
  save_CFLAGS="$CFLAGS"
  CFLAGS="$CFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes]); SBX_CFLAGS="$SBX_CFLAGS $1"],
    [AC_MSG_RESULT([no])])
  CFLAGS="$save_CFLAGS"
])

AC_DEFUN([SBX_WARNINGS], [
  for f in -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes \
      -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef \
      -Wimplicit-fallthrough -Wnull-dereference; do
    SBX_TRY_CFLAG([$f])
  done
  AS_IF([test "x$enable_werror" = xyes], [SBX_CFLAGS="$SBX_CFLAGS -Werror"])
])

dnl _FORTIFY_SOURCE hides errors from AddressSanitizer and needs -O: it is
dnl left out of sanitized builds.
AC_DEFUN([SBX_HARDENING], [
  for f in -fstack-protector-strong -fstack-clash-protection -fPIE; do
    SBX_TRY_CFLAG([$f])
  done
  AS_IF([test "x$enable_sanitize" = xno],
    [AS_CASE(["$CFLAGS"], [*-O0*], [],
      [SBX_CFLAGS="$SBX_CFLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])])
  SBX_LDFLAGS="$SBX_LDFLAGS -pie -Wl,-z,relro -Wl,-z,now"
])
