/* Raw system calls with exact clobbers, one function per number of arguments. Source: psABI A.2.1. */
#ifndef VFIX_SYSCALL_H
#define VFIX_SYSCALL_H

#include <sys/syscall.h>

static inline long syscall0(long n)
{
	long ret;
	__asm__ volatile ("syscall" : "=a"(ret) : "a"(n) : "rcx", "r11", "memory");
	return ret;
}

static inline long syscall1(long n, long a)
{
	long ret;
	__asm__ volatile ("syscall" : "=a"(ret) : "a"(n), "D"(a) : "rcx", "r11", "memory");
	return ret;
}

static inline long syscall3(long n, long a, long b, long c)
{
	long ret;
	__asm__ volatile ("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c)
			  : "rcx", "r11", "memory");
	return ret;
}

static inline long syscall4(long n, long a, long b, long c, long d)
{
	long ret;
	register long r10 __asm__("r10") = d;
	__asm__ volatile ("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
			  : "rcx", "r11", "memory");
	return ret;
}

static inline long syscall5(long n, long a, long b, long c, long d, long e)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	__asm__ volatile ("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			  : "rcx", "r11", "memory");
	return ret;
}

static inline long syscall6(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile ("syscall" : "=a"(ret)
			  : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			  : "rcx", "r11", "memory");
	return ret;
}

#endif
